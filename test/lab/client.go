package lab

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Conn is a client's TCP connection to a Server.
type Conn struct {
	Server string // that answered first, "" on failure
	Err    error  // why it failed
	Opened time.Time
	Took   time.Duration // from SYN to the first answer

	c net.Conn
	r *bufio.Reader
}

// Ask sends a line and returns the name of the server that answered it.
func (c *Conn) Ask(limit time.Duration) (string, error) {
	if c.c == nil {
		return "", c.Err
	}
	if err := c.c.SetDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	if _, err := c.c.Write([]byte("who\n")); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	return strings.TrimSpace(line), err
}

// Close ends the connection.
func (c *Conn) Close() {
	if c.c != nil {
		c.c.Close()
	}
}

// open makes one connection; it must run inside the client's namespace.
func open(to netip.AddrPort, limit time.Duration) *Conn {
	conn := &Conn{Opened: time.Now()}
	c, err := net.DialTimeout("tcp", to.String(), limit)
	if err != nil {
		conn.Err = err
		return conn
	}
	conn.c, conn.r = c, bufio.NewReader(c)
	conn.Server, conn.Err = conn.Ask(limit)
	conn.Took = time.Since(conn.Opened)
	return conn
}

// Open opens count connections to a service, parallel at a time, each within
// limit, and asks each one's server for its name. They stay open until Close or
// the end of the test.
func (n *Node) Open(to netip.AddrPort, count, parallel int, limit time.Duration) []*Conn {
	n.lab.t.Helper()
	conns := make([]*Conn, count)
	n.each(count, parallel, func(i int) { conns[i] = open(to, limit) })
	n.lab.atEnd(func() {
		for _, c := range conns {
			c.Close()
		}
	})
	return conns
}

// Spread opens and closes count connections and counts which server answered;
// failures are counted under "" and the first is returned.
func (n *Node) Spread(to netip.AddrPort, count, parallel int, limit time.Duration) (map[string]int, error) {
	n.lab.t.Helper()
	var mu sync.Mutex
	shares := map[string]int{}
	var first error
	n.each(count, parallel, func(int) {
		c := open(to, limit)
		c.Close()
		mu.Lock()
		defer mu.Unlock()
		shares[c.Server]++
		if c.Err != nil && first == nil {
			first = c.Err
		}
	})
	return shares, first
}

// each runs fn(0..count-1) on some threads inside the namespace.
func (n *Node) each(count, parallel int, fn func(int)) {
	n.lab.t.Helper()
	next := make(chan int, count)
	for i := range count {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	errs := make([]error, max(1, parallel))
	for w := range errs {
		wg.Go(func() {
			errs[w] = n.Go(func() error {
				for i := range next {
					fn(i)
				}
				return nil
			})
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			n.lab.t.Fatalf("lab: client on %s: %v", n.Name, err)
		}
	}
}

// AskUDP sends one datagram and returns the answer.
func (n *Node) AskUDP(to netip.AddrPort, limit time.Duration) (string, error) {
	var answer string
	err := n.Go(func() error {
		c, err := net.DialTimeout("udp", to.String(), limit)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if _, err := c.Write([]byte("who")); err != nil {
			return err
		}
		buf := make([]byte, 2048)
		k, err := c.Read(buf)
		answer = string(buf[:k])
		return err
	})
	return answer, err
}

// Get makes one HTTP/1.0 request and returns the status line and the whole reply.
func (n *Node) Get(to netip.AddrPort, path string, limit time.Duration) (status, reply string, err error) {
	err = n.Go(func() error {
		c, err := net.DialTimeout("tcp", to.String(), limit)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", path); err != nil {
			return err
		}
		var b strings.Builder
		if _, err := bufio.NewReader(c).WriteTo(&b); err != nil {
			return err
		}
		reply = b.String()
		status, _, _ = strings.Cut(reply, "\r\n")
		return nil
	})
	return status, reply, err
}
