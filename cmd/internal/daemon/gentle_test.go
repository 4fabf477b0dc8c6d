package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/control"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/vrrp/host"
)

func web() ipvs.Key { return ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")) }

func real21() netip.AddrPort { return netip.MustParseAddrPort("10.0.0.21:80") }

// weights of 21 and 22 in the table, -1 for one that is out.
func (f *fakeTable) weights() [2]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := [2]int{-1, -1}
	for i, a := range []netip.AddrPort{real21(), netip.MustParseAddrPort("10.0.0.22:80")} {
		if d, ok := f.want[web()].Destinations[a]; ok {
			out[i] = d.Weight
		}
	}
	return out
}

// connect sets the kernel's counts: so many open connections of 21.
func (f *fakeTable) connect(n uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = map[ipvs.Target]ipvs.Connections{
		{Service: web(), Destination: real21()}:                                {Active: n},
		{Service: web(), Destination: netip.MustParseAddrPort("10.0.0.22:80")}: {},
	}
}

// runBalancer runs a balancer in a bubble until the test's end.
func runBalancer(t *testing.T, f func(b *balancer, checks *fakeChecks, table *fakeTable)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "overrides.json")
	synctest.Test(t, func(t *testing.T) {
		checks, table := &fakeChecks{}, &fakeTable{}
		b := newBalancer(checks, table, func(string) {}, zap.NewNop())
		b.Recall(file)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		v := server(80)
		v.Name, v.DrainMax = "web", time.Minute
		if err := b.Configure([]conf.VirtualServer{v}); err != nil {
			t.Fatal(err)
		}
		table.connect(0)
		f(b, checks, table)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (b *balancer) mustOrder(t *testing.T, o control.Order, want string) {
	t.Helper()
	if o.Server == "" {
		o.Server = "10.0.0.21"
	}
	o.By = "root"
	if text, err := b.Order(o); err != nil || !strings.Contains(text, want) {
		t.Errorf("%+v: %q, %v; want %q", o, text, err, want)
	}
}

func expectWeights(t *testing.T, table *fakeTable, what string, w21, w22 int) {
	t.Helper()
	synctest.Wait()
	if got := table.weights(); got != [2]int{w21, w22} {
		t.Errorf("%s: weights %v, want %d and %d", what, got, w21, w22)
	}
}

// A drained server goes when the kernel counts nothing, or when its time is up.
func TestDrain(t *testing.T) {
	runBalancer(t, func(b *balancer, checks *fakeChecks, table *fakeTable) {
		table.connect(2)
		b.mustOrder(t, control.Order{Action: control.Drain}, "10.0.0.21:80 in web: takes no new connections and goes when it has none, at the latest at")
		time.Sleep(30 * time.Second)
		expectWeights(t, table, "with connections", 0, 1)
		table.connect(0)
		time.Sleep(countEvery + time.Millisecond)
		expectWeights(t, table, "without", -1, 1)
		b.mustOrder(t, control.Order{Action: control.Undrain}, "takes connections again")
		expectWeights(t, table, "undrained", 1, 1)
		b.mustOrder(t, control.Order{Action: control.Undrain}, "was not drained")

		table.connect(2)
		b.mustOrder(t, control.Order{Action: control.Drain}, "takes no new connections")
		time.Sleep(59 * time.Second)
		expectWeights(t, table, "before drain_max", 0, 1)
		time.Sleep(2 * time.Second)
		expectWeights(t, table, "after drain_max", -1, 1)
		most := 10 * time.Second
		b.mustOrder(t, control.Order{Action: control.Drain, Server: "10.0.0.22:80", Max: &most}, "NOBODY takes new connections")
	})
}

// A server that is taken out of the file leaves with its checks running, and these end with it.
func TestRemovedFromTheFile(t *testing.T) {
	runBalancer(t, func(b *balancer, checks *fakeChecks, table *fakeTable) {
		table.connect(1)
		v := server(80)
		v.DrainMax, v.RealServers = time.Minute, v.RealServers[1:]
		less := []conf.VirtualServer{v}
		if err := b.Configure(less); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		expectWeights(t, table, "with a connection", 0, 1)
		if len(checks.states) != 2 {
			t.Errorf("checks %v, want those of both servers", checks.keys())
		}
		if err := b.Configure(less); err != nil { // again: its time goes on
			t.Fatal(err)
		}
		time.Sleep(51 * time.Second)
		expectWeights(t, table, "after drain_max", -1, 1)
		if len(checks.states) != 1 {
			t.Errorf("checks %v, want that of the server that stays", checks.keys())
		}
		if n := len(b.View().services[0].conf.RealServers); n != 1 {
			t.Errorf("%d servers are shown, want 1", n)
		}
	})
}

// Its check fails meanwhile: it goes at once. Put back into the file it is as any other.
func TestRemovedAndFailedOrBack(t *testing.T) {
	runBalancer(t, func(b *balancer, checks *fakeChecks, table *fakeTable) {
		table.connect(1)
		both, less := server(80), server(80)
		less.RealServers = less.RealServers[1:]
		for range 2 {
			if err := b.Configure([]conf.VirtualServer{less}); err != nil {
				t.Fatal(err)
			}
			expectWeights(t, table, "removed", 0, 1)
			if err := b.Configure([]conf.VirtualServer{both}); err != nil {
				t.Fatal(err)
			}
			expectWeights(t, table, "back", 1, 1)
		}
		if err := b.Configure([]conf.VirtualServer{less}); err != nil {
			t.Fatal(err)
		}
		checks.set(t, check21, false)
		b.HealthChanged()
		expectWeights(t, table, "failed", -1, 1)
		if len(checks.states) != 1 || len(b.View().services[0].conf.RealServers) != 1 {
			t.Errorf("after it failed: checks %v, servers %v", checks.keys(), b.View().services[0].conf.RealServers)
		}
	})
}

// A reload with another drain_max bounds servers that leave already, too.
func TestDrainMaxChanged(t *testing.T) {
	runBalancer(t, func(b *balancer, _ *fakeChecks, table *fakeTable) {
		table.connect(1)
		less := server(80)
		less.RealServers = less.RealServers[1:]
		for _, most := range []time.Duration{time.Hour, 0, 30 * time.Second} {
			less.DrainMax = most
			if err := b.Configure([]conf.VirtualServer{less}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			expectWeights(t, table, "drain_max "+most.String(), map[bool]int{true: -1}[most == 30*time.Second], 1)
		}
	})
}

// A server that becomes the sorry server takes connections as that alone; drain_max counts from when it is not needed.
func TestServerBecomesSorry(t *testing.T) {
	runBalancer(t, func(b *balancer, checks *fakeChecks, table *fakeTable) {
		table.connect(1)
		less := server(80)
		less.RealServers, less.DrainMax = less.RealServers[1:], 90*time.Second
		less.Sorry = &conf.Sorry{Address: real21(), Method: "DR"}
		if err := b.Configure([]conf.VirtualServer{less}); err != nil {
			t.Fatal(err)
		}
		expectWeights(t, table, "not needed", 0, 1)
		checks.set(t, "TCP_CHECK 10.0.0.22:80", false)
		b.HealthChanged()
		expectWeights(t, table, "needed", 1, -1)
		time.Sleep(time.Minute)
		checks.set(t, "TCP_CHECK 10.0.0.22:80", true)
		b.HealthChanged()
		time.Sleep(time.Minute)
		expectWeights(t, table, "not needed any more", 0, 1)
		time.Sleep(31 * time.Second)
		expectWeights(t, table, "after drain_max", -1, 1)
	})
}

// With alpha a server is down until its check passes, whatever min_up says; when its own check has failed min_up counts.
func TestAlphaWithMinUp(t *testing.T) {
	runBalancer(t, func(b *balancer, checks *fakeChecks, table *fakeTable) {
		v := server(80)
		v.Address, v.MinUp = netip.MustParseAddrPort("10.9.0.101:80"), 0.5
		other := v
		other.RealServers = nil
		for _, r := range v.RealServers {
			r.Checks = []conf.Check{r.Checks[0]}
			r.Checks[0].Alpha, r.Checks[0].Target = true, netip.AddrPortFrom(r.Address.Addr(), 81)
			other.RealServers = append(other.RealServers, r)
		}
		if err := b.Configure([]conf.VirtualServer{other}); err != nil {
			t.Fatal(err)
		}
		in := func() (n int) {
			synctest.Wait()
			table.mu.Lock()
			defer table.mu.Unlock()
			return len(table.want[ipvs.AddressKey(ipvs.TCP, v.Address)].Destinations)
		}
		if n := in(); n != 0 {
			t.Errorf("%d servers are in that no check has passed", n)
		}
		for i, key := range []string{"TCP_CHECK 10.0.0.21:81", "TCP_CHECK 10.0.0.22:81"} {
			checks.set(t, key, false)
			b.HealthChanged()
			if n := in(); n != 1 {
				t.Errorf("%d checks have failed: %d servers are in, want 1 for min_up", i+1, n)
			}
		}
	})
}

// What was told survives: another balancer with the same file has it. A server that is
// configured no more is forgotten.
func TestOverridesSurvive(t *testing.T) {
	runBalancer(t, func(b *balancer, _ *fakeChecks, table *fakeTable) {
		seven := 7
		b.mustOrder(t, control.Order{Action: control.Weight, Weight: &seven}, "weight 7")
		b.mustOrder(t, control.Order{Action: control.Maintenance, Server: "10.0.0.22", On: true}, "maintenance: takes no new connections")
		next, table2 := newBalancer(&fakeChecks{}, table, func(string) {}, zap.NewNop()), &fakeTable{}
		next.table = table2
		next.Recall(b.file)
		if err := next.Configure([]conf.VirtualServer{server(80)}); err != nil {
			t.Fatal(err)
		}
		if got := table2.weights(); got != [2]int{7, -1} {
			t.Errorf("after a restart: weights %v", got)
		}
		told := next.View().told
		if len(told) != 2 || told[0].By != "root" || told[0].At.IsZero() {
			t.Errorf("told %+v", told)
		}
		less := server(80)
		less.RealServers = less.RealServers[1:]
		if err := next.Configure([]conf.VirtualServer{less}); err != nil {
			t.Fatal(err)
		}
		if told := next.View().told; len(told) != 1 || told[0].Server != "10.0.0.22:80" {
			t.Errorf("after its server was removed: %+v", told)
		}
		text, err := os.ReadFile(b.file)
		if err != nil || strings.Contains(string(text), "10.0.0.21") {
			t.Errorf("the file: %v\n%s", err, text)
		}
	})
}

// An order on a director that is not MASTER says so, and not that nobody takes connections.
func TestOrderOnABackup(t *testing.T) {
	for _, active := range []string{"", "VI_1"} {
		b, p, _, _, _ := placed(t, func(v *conf.VirtualServer) { v.ActiveOn = active })
		p.SetVIPs([]host.Set{{Instance: "VI_1", Addresses: []host.Address{{Prefix: netip.MustParsePrefix("10.9.0.100/32")}}}})
		for _, c := range []struct {
			master bool
			server string
			want   string
		}{
			{false, "10.0.0.21", "without limit; VI_1 is not MASTER here: tell the director that is, too"},
			{true, "10.0.0.21", "without limit"},
			{true, "10.0.0.22", "without limit; NOBODY takes new connections of this service now"},
		} {
			p.Want("VI_1", c.master)
			b.Moved()
			if text, err := b.Order(control.Order{Action: control.Drain, Server: c.server, By: "root"}); err != nil || !strings.HasSuffix(text, c.want) {
				t.Errorf("active_on %q, MASTER %v: %q, %v; want %q", active, c.master, text, err, c.want)
			}
		}
	}
}

// During maintenance nobody is told of a server's health; after it they are.
func TestMaintenanceIsQuiet(t *testing.T) {
	checks := &fakeChecks{}
	var lines []string
	b := newBalancer(checks, &fakeTable{}, func(l string) { lines = append(lines, l) }, zap.NewNop())
	if err := b.Configure([]conf.VirtualServer{server(80)}); err != nil {
		t.Fatal(err)
	}
	lines = nil
	b.mustOrder(t, control.Order{Action: control.Maintenance, On: true}, "maintenance")
	checks.set(t, check21, false)
	b.HealthChanged()
	if len(lines) > 0 {
		t.Errorf("told in maintenance: %q", lines)
	}
	b.mustOrder(t, control.Order{Action: control.Maintenance}, "takes connections again")
	if got := fmt.Sprint(lines); !strings.Contains(got, "RS [10.0.0.21]:tcp:80 [10.9.0.100]:tcp:80 DOWN") {
		t.Errorf("told after it: %q", lines)
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	b, _, table := newTestBalancer(t, server(80))
	many, before := 1<<31, table.weights()
	for _, c := range []struct {
		o    control.Order
		want string
	}{
		{control.Order{Action: control.Drain, Server: "server1"}, `"server1" is no address of a server`},
		{control.Order{Action: control.Drain, Server: "10.0.0.9"}, "no virtual_server has the real server 10.0.0.9; there are: 10.0.0.21:80, 10.0.0.22:80"},
		{control.Order{Action: control.Drain, Server: "10.0.0.21:81"}, "no virtual_server has"},
		{control.Order{Action: control.Drain, Server: "10.0.0.21", Service: "mail"}, `there is no virtual_server "mail"`},
		{control.Order{Action: control.Weight, Server: "10.0.0.21", Weight: &many}, "not in 0..2147483647"},
		{control.Order{Action: "explode", Server: "10.0.0.21"}, `unknown order "explode"`},
	} {
		if text, err := b.Order(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %q, %v; want %q", c.o, text, err, c.want)
		}
	}
	taken := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.file = filepath.Join(taken, "overrides.json")
	if _, err := b.Order(control.Order{Action: control.Drain, Server: "10.0.0.21"}); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("without a place for the file: %v", err)
	}
	if got := table.weights(); got != before {
		t.Errorf("weights %v, want %v", got, before)
	}
	for _, service := range []string{"tcp 10.9.0.100:80", "10.9.0.100:80"} {
		b.file = ""
		b.mustOrder(t, control.Order{Action: control.Drain, Service: service}, "takes no new connections")
	}
}

// A restart finds what a predecessor made: what it had drained goes on leaving, and what is
// configured no more leaves, too.
func TestTookOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := server(80)
		v.RealServers = v.RealServers[1:]
		found := ipvs.Table{}
		found.AddService(planService(&v).Service)
		found.AddDestination(web(), ipvs.Destination{Address: real21(), Method: ipvs.DR, Weight: 5})
		found.AddDestination(web(), ipvs.Destination{Address: v.RealServers[0].Address, Method: ipvs.DR, Weight: 1})
		table := &fakeTable{}
		table.connect(1)
		b := newBalancer(&fakeChecks{}, table, func(string) {}, zap.NewNop())
		b.Found(found)
		b.Took(found)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		if err := b.Configure([]conf.VirtualServer{v}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		expectWeights(t, table, "with a connection", 0, 1)
		table.connect(0)
		time.Sleep(2 * countEvery)
		expectWeights(t, table, "without", -1, 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
