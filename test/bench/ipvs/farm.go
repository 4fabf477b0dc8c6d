package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vipd/test/bench"
	"vipd/test/lab"
)

// farm is a configuration: services with servers of their own, each checked by
// TCP_CHECK.
type farm struct {
	services, servers int // servers of each service
	delay, timeout    time.Duration
	hang              bool        // every second server is one that never answers
	weights           map[int]int // of servers that do not have weight 1, by number
}

func (f farm) vip(service int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, byte(service / 250), byte(1 + service%250)}), 80)
}

// server is the address of one server, numbered over all services.
func (f farm) server(n int) netip.AddrPort {
	net := byte(answering)
	if f.hang && n%2 == 1 {
		net = silent
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, net, byte(n / 250), byte(1 + n%250)}), 80)
}

// Networks of servers, 10.answering.0.0/16 and 10.silent.0.0/16.
const (
	answering = 32
	silent    = 33
)

func (f farm) weight(n int) int {
	if w, ok := f.weights[n]; ok {
		return w
	}
	return 1
}

// vipd is the farm in vipd's language.
func (f farm) vipd() string {
	var b strings.Builder
	b.WriteString("[global_defs]\nrouter_id = \"bench\"\n")
	for s := range f.services {
		fmt.Fprintf(&b, "[[virtual_server]]\naddress = %q\nlvs_sched = \"wrr\"\nlvs_method = \"NAT\"\ndelay_loop = \"%v\"\nconnect_timeout = \"%v\"\n[virtual_server.TCP_CHECK]\n",
			f.vip(s), f.delay, f.timeout)
		for n := s * f.servers; n < (s+1)*f.servers; n++ {
			fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = %q\nweight = %d\n", f.server(n), f.weight(n))
		}
	}
	return b.String()
}

// keepalived is the farm in keepalived's language.
func (f farm) keepalived() string {
	var b strings.Builder
	b.WriteString("global_defs {\n router_id bench\n}\n")
	for s := range f.services {
		fmt.Fprintf(&b, "virtual_server %s 80 {\n delay_loop %.0f\n lvs_sched wrr\n lvs_method NAT\n protocol TCP\n", f.vip(s).Addr(), f.delay.Seconds())
		for n := s * f.servers; n < (s+1)*f.servers; n++ {
			fmt.Fprintf(&b, " real_server %s 80 {\n  weight %d\n  TCP_CHECK {\n   connect_timeout %.0f\n  }\n }\n", f.server(n).Addr(), f.weight(n), f.timeout.Seconds())
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// site is a director and the machine that has all servers.
type site struct {
	*lab.Lab
	st     *lab.Stage
	d1, r1 *lab.Node
}

// newSite makes a site. In the network of silent servers nothing answers.
func newSite(st *lab.Stage) *site {
	l := lab.New(st, "d1", "r1")
	s := &site{Lab: l, st: st, d1: l.Node("d1"), r1: l.Node("r1")}
	for _, net := range []int{answering, silent} {
		s.d1.IP(fmt.Sprintf("route add 10.%d.0.0/16 via %s", net, s.r1.Addr()))
	}
	s.r1.IP(fmt.Sprintf("route add local 10.%d.0.0/16 dev lo", answering))
	s.r1.IP(fmt.Sprintf("route add blackhole 10.%d.0.0/16", silent))
	s.accept()
	return s
}

// accept has one thread accept and close every connection to r1, with as few system
// calls as possible: they cost both daemons the same.
func (s *site) accept() {
	var fd int
	err := s.r1.Go(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: 80})
		}
		if err == nil {
			err = unix.Listen(fd, 4096)
		}
		return err
	})
	if err != nil {
		s.st.Fatalf("listening on r1: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
			switch err {
			case nil:
				unix.Close(conn)
			case unix.ECONNABORTED, unix.EINTR:
			default:
				return // EINVAL: shut down
			}
		}
	}()
	s.st.Cleanup(func() {
		_ = unix.Shutdown(fd, unix.SHUT_RDWR) // ends the wait in Accept4
		<-done
		unix.Close(fd)
	})
}

// subject is a daemon under test: with keepalived, all of its processes.
type subject struct {
	*lab.Process
	vipd *lab.Daemon // nil: it is keepalived
}

// start starts a daemon with the farm.
func (s *site) start(daemon string, f farm) *subject {
	if daemon == bench.Keepalived {
		return &subject{Process: s.d1.KeepalivedServices(f.keepalived())}
	}
	d := s.d1.Vipd(f.vipd())
	return &subject{Process: d.Process, vipd: d}
}

// reload has the daemon take another farm, and returns the time just before.
func (s *site) reload(d *subject, f farm) time.Time {
	if d.vipd != nil {
		return d.vipd.Reload(f.vipd())
	}
	return s.d1.ReloadKeepalived(d.Process, f.keepalived())
}
