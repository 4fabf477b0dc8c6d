package kernel

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestReloadInPlace: a reload that changes any attribute of a service or a server changes it in the kernel, and the
// connections through it go on: nothing is deleted and made anew.
func TestReloadInPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	const tcpPort, udpPort, sip = 9500, 9501, 9502
	s.serve(tcpPort, 2)
	for _, r := range s.r[:2] {
		s.openTunnels(r)
		r.ServeUDP(udpPort, vipA(), r.Name)
		r.ServeUDP(sip, vipA(), r.Name)
	}
	calls := udp(vipA(), sip, "DR", "persistence_timeout = 60\npersistence_engine = \"sip\"", s.r[0].Addr(), s.r[1].Addr())
	config := func(scheduler, method, service, server, datagrams string) string {
		return alone(service1(tcpPort, scheduler, method, service, server), udp(vipA(), udpPort, "DR", datagrams, s.r[0].Addr(), s.r[1].Addr()), calls)
	}
	d := s.start(config("rr", "DR", "", "", ""))[0]
	s.Eventually(5*time.Second, "all services are there", func() bool { return strings.Count(s.d[0].Exec("ipvsadm", "-S", "-n"), "-a ") == 6 })
	conns := s.cl.Open(at(vipA(), tcpPort), 6, 1, patience)
	s.Eventually(10*time.Second, "the kernel has counted them", func() bool { return scheduled(s.d[0], name(tcpPort)) == 6 })

	again := s.calls(t, sip)
	started := len(d.Log())
	for _, c := range []struct{ scheduler, method, service, server, datagrams, want string }{
		{"wlc", "DR", "", "", "", "-A -t 10.9.0.100:9500 -s wlc\n"},
		{"sh", "DR", "sh-port = true", "", "", "-A -t 10.9.0.100:9500 -s sh -b sh-port\n"},
		{"sh", "DR", "sh-port = true\nsh-fallback = true", "", "", "-A -t 10.9.0.100:9500 -s sh -b sh-fallback,sh-port\n"},
		{"mh", "DR", "mh-port = true\npersistence_timeout = 60", "", "", "-A -t 10.9.0.100:9500 -s mh -p 60 -b mh-port\n"},
		{"rr", "DR", "flag-3 = true\npersistence_timeout = 90\npersistence_granularity = 24", "", "", "-A -t 10.9.0.100:9500 -s rr -p 90 -M 255.255.255.0 -b flag-3\n"},
		{"mh", "DR", "mh-port = true\nmh-fallback = true", "", "", "-A -t 10.9.0.100:9500 -s mh -b mh-fallback,mh-port\n"},
		{"sh", "DR", "flag-1 = true", "", "", "-A -t 10.9.0.100:9500 -s sh -b sh-fallback\n"},
		{"sh", "DR", "flag-2 = true", "", "", "-A -t 10.9.0.100:9500 -s sh -b sh-port\n"},
		{"rr", "NAT", "", "", "", "-a -t 10.9.0.100:9500 -r 10.9.0.11:9500 -m -w 1\n"},
		{"rr", "DR", "", "weight = 3", "", "-a -t 10.9.0.100:9500 -r 10.9.0.11:9500 -g -w 3\n"},
		{"rr", "DR", "", "uthreshold = 9\nlthreshold = 4", "", "-> 10.9.0.11:9500 9 4 "},
		{"rr", "TUN type gue port 6080 csum", "", "", "", "-a -t 10.9.0.100:9500 -r 10.9.0.11:9500 -i -w 1 --tun-type gue --tun-port 6080 --tun-csum\n"},
		{"rr", "TUN type gre", "", "lvs_method = \"TUN\"", "", "-a -t 10.9.0.100:9500 -r 10.9.0.11:9500 -i -w 1 --tun-type ipip\n"},
		{"rr", "DR", "", "", "ops = true", "-A -u 10.9.0.100:9501 -s rr -o\n"},
		{"rr", "DR", "", "", "persistence_timeout = 60\npersistence_engine = \"sip\"", "-A -u 10.9.0.100:9501 -s rr -p 60 --pe sip\n"},
		{"rr", "DR", "", "", "persistence_timeout = 60", "-A -u 10.9.0.100:9501 -s rr -p 60\n"},
	} {
		d.Reload(config(c.scheduler, c.method, c.service, c.server, c.datagrams))
		s.Eventually(5*time.Second, "the kernel has "+c.want, func() bool { return strings.Contains(s.saved(), c.want) })
		for i, k := range conns {
			if who, err := k.Ask(patience); err != nil || who != k.Server {
				t.Errorf("%s: connection %d, to %s: %q, %v", strings.TrimSpace(c.want), i, k.Server, who, err)
			}
		}
	}
	calls = strings.Replace(calls, "persistence_timeout = 60", "persistence_timeout = 90", 1)
	d.Reload(config("rr", "DR", "", "", ""))
	s.Eventually(5*time.Second, "the last reload is in the kernel", func() bool {
		return strings.Contains(s.saved(), "-A -u 10.9.0.100:9502 -s rr -p 90 --pe sip\n")
	})
	again("after a reload")
	if n := scheduled(s.d[0], name(tcpPort)); n != 6 {
		t.Errorf("the service has had %d connections, want the 6 from the beginning: it was made anew", n)
	}
	var done []string
	for line := range strings.Lines(d.Log()[started:]) {
		if _, op, ok := strings.Cut(line, "ipvsadm "); ok {
			done = append(done, op)
			if !strings.HasPrefix(op, "-E ") && !strings.HasPrefix(op, "-e ") {
				t.Errorf("a reload did more than edit: ipvsadm %s", op)
			}
		}
	}
	if len(done) < 20 {
		t.Errorf("only %d changes are in the log: %q", len(done), done)
	}
}

// saved is the table of the director as ipvsadm saves it, and its servers with their limits, which it leaves out there.
func (s *site) saved() string {
	text := s.d[0].Exec("ipvsadm", "-S", "-n")
	for line := range strings.Lines(s.d[0].Exec("ipvsadm", "-L", "-n", "--thresholds")) {
		text += strings.Join(strings.Fields(line), " ") + "\n"
	}
	return text
}

// service1 is a service of r1 and r2 with lines for r1 alone.
func service1(port uint16, scheduler, method, own, first string) string {
	text := service(on(port, scheduler, method, own), fmt.Sprintf("10.9.0.11:%d", port), fmt.Sprintf("10.9.0.12:%d", port))
	line := fmt.Sprintf("address = \"10.9.0.11:%d\"\n", port)
	return strings.Replace(text, line, line+first+"\n", 1)
}
