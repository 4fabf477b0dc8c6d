package kernel

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// O46: a client uses one source port for five connections within a second, through NAT:
// none waits for a second SYN. vipd changes no setting of the kernel that it was not told
// to, and says when one is not as it should be.
func TestO46PortReuse(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	d.Sysctl("net/ipv4/ip_forward", "1")
	for _, r := range s.r[1:] {
		r.Serve(86, r.Name)
		r.Sh("ip rule add from " + r.AddrOn(1).String() + " lookup 100; ip route add default via 10.8.0.1 table 100")
	}
	vipd := s.start(alone(service(on(8080, "rr", "NAT", ""), "10.8.0.12:86", "10.8.0.13:86")))[0]
	d.WaitWeights(5*time.Second, "TCP 10.9.0.100:8080", map[string]int{"10.8.0.12:86": 1, "10.8.0.13:86": 1})

	seen, answered := s.cl.Capture(), map[string]int{}
	for i := range 5 {
		began := time.Now()
		who, err := getFrom(s.cl, 2348, at(vipA(), 8080).String())
		t.Logf("request %d: %s after %v", i+1, who, time.Since(began)-100*time.Millisecond)
		if n := synsFrom(seen, 2348, began); err != nil || n != 1 {
			t.Errorf("request %d from port 2348: %q, %v, with %d SYNs, want one", i+1, who, err, n)
		}
		answered[who]++
	}
	if answered["r2"] == 0 || answered["r3"] == 0 {
		t.Errorf("answers %v: each connection is not scheduled anew", answered)
	}
	if v := d.ReadSysctl("net/ipv4/vs/conn_reuse_mode"); v != "1" {
		t.Errorf("conn_reuse_mode is %s now", v)
	}

	// The twin: 0 pins the port to its first server, and status says so.
	d.Sysctl("net/ipv4/vs/conn_reuse_mode", "0")
	first, err := getFrom(s.cl, 2349, at(vipA(), 8080).String())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if who, err := getFrom(s.cl, 2349, at(vipA(), 8080).String()); who != first || err != nil {
			t.Errorf("with conn_reuse_mode 0 port 2349 is answered by %q, %v; want %s again", who, err, first)
		}
	}
	if out, err := vipd.Ctl("status"); err != nil || !strings.Contains(out, "net.ipv4.vs.conn_reuse_mode is 0; set it to 1") {
		t.Errorf("status does not name the sysctl: %v\n%s", err, out)
	}
	if v := d.ReadSysctl("net/ipv4/vs/conn_reuse_mode"); v != "0" {
		t.Errorf("conn_reuse_mode is %s now", v)
	}
}

// synsFrom counts the SYNs that a client has sent from a port after a time.
func synsFrom(c *lab.Capture, port uint16, after time.Time) int {
	return len(lab.Filter(c.Frames(), func(f lab.Frame) bool {
		p, ok := f.Parse()
		return ok && f.Sent && f.At.After(after) && p.Protocol == 6 && len(p.Payload) >= 20 &&
			binary.BigEndian.Uint16(p.Payload) == port && p.Payload[13]&0x12 == 0x02
	}))
}

// getFrom makes an HTTP request from a port and returns the last line of the answer.
func getFrom(n *lab.Node, port int, to string) (who string, err error) {
	err = n.Go(func() error {
		d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{Port: port}, Control: func(_, _ string, c syscall.RawConn) error {
			var e error
			err := c.Control(func(fd uintptr) { e = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) })
			if err == nil {
				err = e
			}
			return err
		}}
		c, err := d.DialContext(context.Background(), "tcp4", to)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err := fmt.Fprint(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		lines := bufio.NewScanner(c) // to the end: the server closes first, so the port is free at once
		for lines.Scan() {
			who = strings.TrimSpace(lines.Text())
		}
		return lines.Err()
	})
	time.Sleep(100 * time.Millisecond) // for the server's last ACK: until then the port is taken
	return who, err
}
