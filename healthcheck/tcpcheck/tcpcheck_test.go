package tcpcheck_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/tcpcheck"
)

func newChecker(t testing.TB, cfg tcpcheck.Config) healthcheck.Checker {
	t.Helper()
	c, err := tcpcheck.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// check makes one attempt with a deadline of 1 s; where it can be made in both ways, one in
// each, which must agree.
func check(t testing.TB, cfg tcpcheck.Config) healthcheck.Result {
	t.Helper()
	c := newChecker(t, cfg)
	r := checktest.Attempt(t, c, time.Second)
	if w, ok := c.(healthcheck.Waiter); ok {
		if again := checktest.Attempt(t, checktest.Waited(w), time.Second); again.OK != r.OK || again.Refused != r.Refused || again.LocalFault != r.LocalFault || again.Detail != r.Detail {
			t.Errorf("Check says %+v, Begin and End say %+v", r, again)
		}
	}
	return r
}

func TestConformance(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		return newChecker(t, tcpcheck.Config{Target: addr})
	})
}

// TestConformanceWaited: the same of attempts that somebody else waits for. An end before the
// start is his affair.
func TestConformanceWaited(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		w, ok := newChecker(t, tcpcheck.Config{Target: addr}).(healthcheck.Waiter)
		if !ok {
			t.Fatal("connecting alone cannot be waited for")
		}
		return unlessOver{checktest.Waited(w)}
	})
}

type unlessOver struct{ healthcheck.Checker }

func (c unlessOver) Check(ctx context.Context) healthcheck.Result {
	if err := ctx.Err(); err != nil {
		return healthcheck.Result{Detail: err.Error()}
	}
	return c.Checker.Check(ctx)
}

// TestWhoCanBeWaitedFor: what has more to do than to connect cannot.
func TestWhoCanBeWaitedFor(t *testing.T) {
	target := netip.MustParseAddrPort("127.0.0.1:80")
	for _, tt := range []struct {
		cfg  tcpcheck.Config
		want bool
	}{
		{tcpcheck.Config{Target: target}, true},
		{tcpcheck.Config{Target: target, Source: healthcheck.Source{Interface: "lo", Mark: 7}}, true},
		{tcpcheck.Config{Target: target, Send: "a"}, false},
		{tcpcheck.Config{Target: target, Expect: "a"}, false},
		{tcpcheck.Config{Target: target, Source: healthcheck.Source{Via: netip.MustParseAddr("127.0.0.2")}}, false},
	} {
		if _, got := newChecker(t, tt.cfg).(healthcheck.Waiter); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.cfg, got, tt.want)
		}
	}
}

func TestNewRefusesBadTargets(t *testing.T) {
	for _, target := range []netip.AddrPort{{}, netip.MustParseAddrPort("127.0.0.1:0")} {
		if _, err := tcpcheck.New(tcpcheck.Config{Target: target}); err == nil {
			t.Errorf("target %v was accepted", target)
		}
	}
}

func TestKeyTellsChecksApart(t *testing.T) {
	configs := []tcpcheck.Config{
		{Target: netip.MustParseAddrPort("10.0.0.1:80")},
		{Target: netip.MustParseAddrPort("10.0.0.1:81")},
		{Target: netip.MustParseAddrPort("10.0.0.2:80")},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Source: healthcheck.Source{Bind: netip.MustParseAddrPort("10.0.0.9:0")}},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Source: healthcheck.Source{Bind: netip.MustParseAddrPort("10.0.0.9:1")}},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Source: healthcheck.Source{Bind: netip.AddrPortFrom(netip.Addr{}, 1)}},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Source: healthcheck.Source{Interface: "eth0"}},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Source: healthcheck.Source{Interface: "eth0", Mark: 1}},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Send: "a"},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Expect: "a"},
		{Target: netip.MustParseAddrPort("10.0.0.1:80"), Send: "a", Expect: "a"},
	}
	seen := map[string]bool{}
	for _, c := range configs {
		if seen[c.Key()] {
			t.Errorf("%+v: key %q is not its own", c, c.Key())
		}
		seen[c.Key()] = true
	}
}

func TestResults(t *testing.T) {
	open := checktest.Serve(t, nil, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	resets := checktest.Serve(t, nil, checktest.Reset)
	refused := checktest.Refused(t)
	silent := checktest.FullBacklog(t)
	loopback := netip.MustParseAddrPort("127.0.0.2:0")
	tests := []struct {
		name string
		cfg  tcpcheck.Config
		ok   bool
		want string
	}{
		{"open", tcpcheck.Config{Target: open}, true, "connected to " + open.String()},
		{"mapped address", tcpcheck.Config{Target: netip.AddrPortFrom(netip.AddrFrom16(open.Addr().As16()), open.Port())}, true, "connected to"},
		{"from an address", tcpcheck.Config{Target: open, Source: healthcheck.Source{Bind: loopback}}, true, "connected to"},
		{"made, then reset", tcpcheck.Config{Target: resets}, true, "connected to"},
		{"refused", tcpcheck.Config{Target: refused}, false, "connect " + refused.String() + ": connection refused"},
		{"silent", tcpcheck.Config{Target: silent}, false, "connect " + silent.String() + ": no answer within 1s"},
		{"bindto not here", tcpcheck.Config{Target: open, Source: healthcheck.Source{Bind: netip.MustParseAddrPort("192.0.2.1:0")}}, false,
			"bind 192.0.2.1: cannot assign requested address (the bindto address is not on this machine)"},
		{"families differ", tcpcheck.Config{Target: open, Source: healthcheck.Source{Bind: netip.MustParseAddrPort("[::1]:0")}}, false,
			"bind ::1: address family not supported by protocol (bindto and the server differ in address family)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := check(t, tt.cfg)
			if r.OK != tt.ok || r.LocalFault || !strings.HasPrefix(r.Detail, tt.want) {
				t.Errorf("got %+v, want OK %v and %q", r, tt.ok, tt.want)
			}
		})
	}
}

// TestNothingStaysBehind: the server sees the end of the connection at once,
// and no TIME_WAIT keeps a fixed source port from being used again.
func TestNothingStaysBehind(t *testing.T) {
	ended := make(chan struct{}, 100)
	addr := checktest.Serve(t, nil, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		ended <- struct{}{}
	})
	cfg := tcpcheck.Config{Target: addr, Source: healthcheck.Source{Bind: checktest.Refused(t)}}
	cfg.Source.Bind = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.3"), cfg.Source.Bind.Port())
	for i := range 20 {
		if r := check(t, cfg); !r.OK {
			t.Fatalf("attempt %d from %v: %+v", i, cfg.Source.Bind, r)
		}
		select {
		case <-ended:
		case <-time.After(2 * time.Second):
			t.Fatal("the server did not see the connection end")
		}
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprintf(":%04X", addr.Port())
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); (strings.HasSuffix(f[1], port) || strings.HasSuffix(f[2], port)) && f[3] == "06" {
			t.Errorf("a connection is left in TIME_WAIT: %s", line)
		}
	}
}

// TestO40 is "unreachable host not detected": errors of routes and of a
// removed address are failures, a lack of ports is not.
func TestO40UnreachableHost(t *testing.T) {
	tests := []struct {
		name   string
		setup  []string
		target string
		bind   string
		detail string
	}{
		{"unreachable", []string{"route add unreachable 10.9.0.21"}, "10.9.0.21:80", "", "no route to host"},
		{"prohibit", []string{"route add prohibit 10.9.0.21"}, "10.9.0.21:80", "", "permission denied (a prohibit route"},
		{"blackhole", []string{"route add blackhole 10.9.0.21"}, "10.9.0.21:80", "", "invalid argument (a blackhole route"},
		{"no route", nil, "10.9.0.21:80", "", "network is unreachable"},
		{"address on the path removed", []string{"addr add 10.9.0.11/24 dev br1", "addr del 10.9.0.11/24 dev br1"}, "10.9.0.21:80", "", "network is unreachable"},
		{"bound address removed", []string{"addr add 10.9.0.11/24 dev br1", "addr add 10.9.0.12/24 dev br1", "addr del 10.9.0.12/24 dev br1"},
			"10.9.0.21:80", "10.9.0.12:0", "the bindto address is not on this machine"},
		{"silence of ARP", []string{"addr add 10.9.0.11/24 dev br1"}, "10.9.0.21:80", "", "no answer within 1s"},
		{"unreachable 6", []string{"-6 route add unreachable 2001:db8::21"}, "[2001:db8::21]:80", "", "no route to host"},
		{"prohibit 6", []string{"-6 route add prohibit 2001:db8::21"}, "[2001:db8::21]:80", "", "permission denied"},
		{"blackhole 6", []string{"-6 route add blackhole 2001:db8::21"}, "[2001:db8::21]:80", "", "invalid argument"},
		{"no route 6", nil, "[2001:db8::21]:80", "", "network is unreachable"},
		{"no source address 6", []string{"link set br1 addrgenmode none", "link set br1 down", "link set br1 up",
			"-6 route add 2001:db8::/64 dev br1"}, "[2001:db8::21]:80", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checktest.InNamespace(t, func() {
				checktest.IP(t, "link add br1 type bridge")
				checktest.IP(t, "link set br1 up")
				for _, args := range tt.setup {
					checktest.IP(t, args)
				}
				cfg := tcpcheck.Config{Target: netip.MustParseAddrPort(tt.target)}
				if tt.bind != "" {
					cfg.Source.Bind = netip.MustParseAddrPort(tt.bind)
				}
				r := check(t, cfg)
				if r.OK || r.LocalFault || !strings.Contains(r.Detail, tt.detail) {
					t.Errorf("got %+v, want a failure with %q", r, tt.detail)
				}
				t.Log(r.Detail)
			})
		})
	}
}

// TestO40 continued: port exhaustion is this machine's trouble, for any way in
// which the source is chosen; the twin with one port more connects.
func TestO40PortsExhausted(t *testing.T) {
	for _, bind := range []string{"", "127.0.0.1:0"} {
		t.Run("from "+bind, func(t *testing.T) {
			checktest.InNamespace(t, func() {
				l, err := net.Listen("tcp4", "127.0.0.1:80")
				if err != nil {
					t.Error(err)
					return
				}
				defer l.Close()
				checktest.Sysctl(t, "net/ipv4/ip_local_port_range", "50000 50003")
				cfg := tcpcheck.Config{Target: netip.MustParseAddrPort("127.0.0.1:80")}
				if bind != "" {
					cfg.Source.Bind = netip.MustParseAddrPort(bind)
				}
				if r := check(t, cfg); !r.OK {
					t.Errorf("with free ports: %+v", r)
				}
				dialer := net.Dialer{KeepAlive: -1}
				for range 4 {
					conn, err := dialer.Dial("tcp4", "127.0.0.1:80")
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
				}
				r := check(t, cfg)
				if r.OK || !r.LocalFault || !strings.Contains(r.Detail, "ip_local_port_range") {
					t.Errorf("without free ports: %+v, want a local fault", r)
				}
				t.Log(r.Detail)
			})
		})
	}
}

// TestSource: bind_if and fwmark decide on the way of the packets, and a source that
// is not there is a failure as any broken way to the server.
func TestSource(t *testing.T) {
	checktest.InNamespace(t, func() {
		l, err := net.Listen("tcp", "127.0.0.1:80")
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Close()
		checktest.IP(t, "link add eth1 type veth peer name peer1")
		checktest.IP(t, "link set eth1 up")
		checktest.IP(t, "link set peer1 up")
		checktest.IP(t, "addr add 10.1.0.1/24 dev eth1")
		checktest.IP(t, "rule add fwmark 7 prohibit priority 0") // before the table of local addresses, which is moved below it
		checktest.IP(t, "rule add priority 10 table local")
		checktest.IP(t, "rule del priority 0 table local")
		for _, tt := range []struct {
			name   string
			source healthcheck.Source
			ok     bool
			want   string
		}{
			{"by lo", healthcheck.Source{Interface: "lo"}, true, "connected to"},
			{"by an interface that does not lead there", healthcheck.Source{Interface: "eth1"}, false, "connect 127.0.0.1:80: "},
			{"by an interface that is not there", healthcheck.Source{Interface: "eth9"}, false,
				"bind to interface eth9: no such device (the bind_if interface is not on this machine)"},
			{"with a mark that a rule stops", healthcheck.Source{Mark: 7}, false, "permission denied"},
			{"with another mark", healthcheck.Source{Mark: 1<<32 - 1}, true, "connected to"},
		} {
			r := check(t, tcpcheck.Config{Target: netip.MustParseAddrPort("127.0.0.1:80"), Source: tt.source})
			if r.OK != tt.ok || r.LocalFault || !strings.Contains(r.Detail, tt.want) {
				t.Errorf("%s: %+v, want %v %q", tt.name, r, tt.ok, tt.want)
			}
		}
	})
}

// TestLinkLocal: a link-local server is reached by the interface of bind_if, and
// by no other.
func TestLinkLocal(t *testing.T) {
	checktest.InNamespace(t, func() {
		checktest.Sysctl(t, "net/ipv6/conf/default/accept_dad", "0")
		for _, name := range []string{"eth1", "eth2"} {
			checktest.IP(t, "link add "+name+" type veth peer name peer"+name)
			checktest.IP(t, "link set "+name+" up")
			checktest.IP(t, "link set peer"+name+" up")
		}
		checktest.IP(t, "-6 addr add fe80::21/64 dev eth1 nodad")
		l, err := net.Listen("tcp", "[fe80::21%eth1]:80")
		if err != nil {
			t.Error(err)
			return
		}
		defer l.Close()
		target := netip.MustParseAddrPort("[fe80::21]:80")
		right := tcpcheck.Config{Target: target, Source: healthcheck.Source{Interface: "eth1"}}
		r := checktest.Attempt(t, newChecker(t, right), time.Second)
		for limit := time.Now().Add(10 * time.Second); !r.OK && time.Now().Before(limit); r = checktest.Attempt(t, newChecker(t, right), time.Second) {
			// The kernel may be slow to take the new links into use.
			time.Sleep(50 * time.Millisecond)
		}
		if r = check(t, right); !r.OK {
			t.Errorf("by the right interface: %+v", r)
		}
		for _, iface := range []string{"", "eth2"} {
			if r := check(t, tcpcheck.Config{Target: target, Source: healthcheck.Source{Interface: iface}}); r.OK || r.LocalFault {
				t.Errorf("by %q: %+v, want a failure", iface, r)
			}
		}
	})
}

func TestBindPortInUse(t *testing.T) {
	open := checktest.Serve(t, nil, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	other := checktest.Serve(t, nil, func(net.Conn) {})
	r := check(t, tcpcheck.Config{Target: open, Source: healthcheck.Source{Bind: other}})
	if r.OK || !r.LocalFault || !strings.Contains(r.Detail, "bind_port") {
		t.Errorf("bind_port of a listening socket: %+v, want a local fault", r)
	}
}

// TestDescriptorsExhausted runs itself with a low limit of open files.
func TestDescriptorsExhausted(t *testing.T) {
	if addr := os.Getenv("TCPCHECK_TEST_NOFILE"); addr != "" {
		exhausted(t, netip.MustParseAddrPort(addr))
		return
	}
	open := checktest.Serve(t, nil, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorsExhausted$", "-test.v")
	cmd.Env = append(os.Environ(), "TCPCHECK_TEST_NOFILE="+open.String())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func exhausted(t *testing.T, open netip.AddrPort) {
	if r := check(t, tcpcheck.Config{Target: open}); !r.OK {
		t.Fatalf("with free descriptors: %+v", r)
	}
	limit := syscall.Rlimit{Cur: 32, Max: 32}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		defer f.Close()
	}
	r := check(t, tcpcheck.Config{Target: open})
	if r.OK || !r.LocalFault || !strings.Contains(r.Detail, "too many open files (raise LimitNOFILE") {
		t.Errorf("without free descriptors: %+v, want a local fault", r)
	}
}

func BenchmarkCheck(b *testing.B) {
	addr := checktest.Serve(b, nil, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	c := newChecker(b, tcpcheck.Config{Target: addr})
	b.ReportAllocs()
	for b.Loop() {
		if r := c.Check(b.Context()); !r.OK {
			b.Fatal(r)
		}
	}
}
