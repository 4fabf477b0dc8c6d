package lab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
)

// Mode is how a Server behaves towards its clients.
type Mode int

// Modes of a Server.
const (
	Answer Mode = iota // accept and answer
	Hang               // accept and never say anything
	Reset              // accept and reset at once
	Refuse             // nobody listens
)

// Server is a real service on a node: TCP on one port, IPv4 and IPv6. It says
// its name for every line it gets, keeps connections open, and answers HTTP
// requests on the same port with its name as the body.
type Server struct {
	Name string

	node *Node
	port uint16

	mu       sync.Mutex
	mode     Mode
	status   int
	body     string
	handler  func(net.Conn)
	listener net.Listener
	conns    map[net.Conn]struct{}
	accepted []netip.AddrPort
	wg       sync.WaitGroup
}

// Serve starts a server on a port of the node. It ends with the test.
func (n *Node) Serve(port uint16, name string) *Server {
	n.lab.t.Helper()
	s := &Server{Name: name, node: n, port: port, status: 200, body: name + "\n", conns: map[net.Conn]struct{}{}}
	if err := s.listen(); err != nil {
		n.lab.t.Fatalf("lab: serving port %d on %s: %v", port, n.Name, err)
	}
	n.lab.atEnd(func() {
		s.Kill()
		s.wg.Wait()
	})
	return s
}

// listen opens the port if it is not open.
func (s *Server) listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return nil
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	err := s.node.Go(func() (err error) {
		s.listener, err = lc.Listen(context.Background(), "tcp", fmt.Sprintf(":%d", s.port))
		return err
	})
	if err != nil {
		return err
	}
	l := s.listener
	s.wg.Go(func() { s.accept(l) })
	return nil
}

func (s *Server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed by Refuse
		}
		s.mu.Lock()
		if from, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
			s.accepted = append(s.accepted, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		}
		s.conns[c] = struct{}{}
		mode, handler := s.mode, s.handler
		s.mu.Unlock()
		s.wg.Go(func() {
			defer s.forget(c)
			switch {
			case mode == Reset:
				reset(c)
			case handler != nil && mode == Answer:
				handler(c)
			default:
				s.talk(c)
			}
		})
	}
}

func (s *Server) forget(c net.Conn) {
	c.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// reset closes a connection with RST.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // at worst the close is an orderly one
	}
	c.Close()
}

// talk answers lines until the client goes.
func (s *Server) talk(c net.Conn) {
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		line := lines.Text()
		http := strings.HasPrefix(line, "GET ") || strings.HasPrefix(line, "HEAD ")
		for http && lines.Scan() && lines.Text() != "" {
		}
		s.mu.Lock()
		mode, status, body := s.mode, s.status, s.body
		s.mu.Unlock()
		switch {
		case mode == Hang:
			continue
		case http:
			reply := fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
			_, _ = c.Write([]byte(reply)) // a client that is gone gets nothing
			return
		default:
			if _, err := c.Write([]byte(s.Name + "\n")); err != nil {
				return
			}
		}
	}
}

// SetMode changes the behaviour from now on; open connections stay open.
func (s *Server) SetMode(m Mode) {
	s.node.lab.t.Helper()
	s.mu.Lock()
	s.mode = m
	l := s.listener
	if m == Refuse {
		s.listener = nil
	}
	s.mu.Unlock()
	if m == Refuse {
		if l != nil {
			l.Close()
		}
		return
	}
	if err := s.listen(); err != nil {
		s.node.lab.t.Fatalf("lab: serving port %d on %s again: %v", s.port, s.node.Name, err)
	}
}

// HTTP sets the status and body of the answers to HTTP requests.
func (s *Server) HTTP(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

// Handle has fn treat each new connection, for servers that misbehave in their
// own way; nil ends it. The connection is closed when fn returns.
func (s *Server) Handle(fn func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = fn
}

// Kill is the death of the service: the port refuses and all connections are reset.
func (s *Server) Kill() {
	s.SetMode(Refuse)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		reset(c)
	}
}

// Accepted lists the clients of all connections so far, in order.
func (s *Server) Accepted() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]netip.AddrPort(nil), s.accepted...)
}

// AcceptedFrom counts the connections of one client address so far. The
// client's traffic is told from health checks that way.
func (s *Server) AcceptedFrom(addr netip.Addr) int {
	return len(Filter(s.Accepted(), func(a netip.AddrPort) bool { return a.Addr() == addr }))
}

// Open counts the connections that are open now.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// ServeUDP answers every datagram on a port with a name until the test ends.
func (n *Node) ServeUDP(port uint16, addr netip.Addr, name string) {
	n.lab.t.Helper()
	var pc net.PacketConn
	err := n.Go(func() (err error) {
		pc, err = net.ListenPacket("udp", netip.AddrPortFrom(addr, port).String())
		return err
	})
	if err != nil {
		n.lab.t.Fatalf("lab: serving UDP port %d on %s: %v", port, n.Name, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			_, from, err := pc.ReadFrom(buf)
			if err != nil {
				return // closed below
			}
			_, _ = pc.WriteTo([]byte(name), from) // lost, as datagrams may be
		}
	}()
	n.lab.atEnd(func() {
		pc.Close()
		<-done
	})
}

// HoldVIP gives a real server of LVS-DR the virtual addresses, without
// answering ARP for them: on a dummy interface where the kernel has one, on lo
// elsewhere.
func (n *Node) HoldVIP(vips ...netip.Addr) {
	n.lab.t.Helper()
	var ignore, announce []string
	for _, scope := range []string{"all", "default", "eth0", "eth1"} {
		ignore = append(ignore, "net/ipv4/conf/"+scope+"/arp_ignore")
		announce = append(announce, "net/ipv4/conf/"+scope+"/arp_announce")
	}
	n.sysctls("1", ignore...)
	n.sysctls("2", announce...)
	dev := "vips"
	if _, err := n.handle.LinkByName(dev); err != nil {
		dummy := &netlink.Dummy{LinkAttrs: netlink.NewLinkAttrs()}
		dummy.Name = dev
		if n.handle.LinkAdd(dummy) != nil {
			dev = "lo"
		}
	}
	var prefixes []string
	for _, v := range vips {
		prefixes = append(prefixes, netip.PrefixFrom(v, v.BitLen()).String())
	}
	n.setUp(dev, prefixes...)
}
