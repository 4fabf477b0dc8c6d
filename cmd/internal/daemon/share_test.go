package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
)

// onPort is server(80) as a service on another port: its checks are the same.
func onPort(port uint16) conf.VirtualServer {
	v := server(80)
	v.Address = netip.AddrPortFrom(v.Address.Addr(), port)
	return v
}

// O41: a check of one server that a hundred services have runs once, and its
// result counts in all of them.
func TestO41IdenticalChecksAreShared(t *testing.T) {
	var all []conf.VirtualServer
	for i := range 100 {
		all = append(all, onPort(uint16(1000+i)))
	}
	b, checks, table := newTestBalancer(t, all...)
	if want := []string{check21, "TCP_CHECK 10.0.0.22:80"}; !slices.Equal(checks.keys(), want) {
		t.Fatalf("the checks are %q, want %q", checks.keys(), want)
	}
	checks.set(t, check21, false)
	b.HealthChanged()
	for key, pool := range table.want {
		if _, in := pool.Destinations[all[0].RealServers[0].Address]; in || len(pool.Destinations) != 1 {
			t.Errorf("%s has %v", key, pool.Destinations)
		}
	}
	if len(table.want) != 100 {
		t.Errorf("%d services, want 100", len(table.want))
	}
}

// Checks with another timing, another source or of another server are checks of
// their own; a reload that changes the timing of one keeps its state.
func TestChecksThatDifferAreNotShared(t *testing.T) {
	for name, change := range map[string]func(*conf.Check){
		"delay_loop":         func(c *conf.Check) { c.DelayLoop *= 2 },
		"connect_timeout":    func(c *conf.Check) { c.ConnectTimeout *= 2 },
		"delay_before_retry": func(c *conf.Check) { c.DelayBeforeRetry += time.Second },
		"delay_if_refused":   func(c *conf.Check) { c.DelayIfRefused += time.Second },
		"retry":              func(c *conf.Check) { c.Retry++ },
		"fall":               func(c *conf.Check) { c.Fall = 2 },
		"rise":               func(c *conf.Check) { c.Rise = 2 },
		"fwmark":             func(c *conf.Check) { c.FWMark = 1 },
		"bind_if":            func(c *conf.Check) { c.BindIf = "eth0" },
		"bindto":             func(c *conf.Check) { c.Bind = netip.MustParseAddrPort("10.0.0.1:0") },
		"connect_port":       func(c *conf.Check) { c.Target = netip.MustParseAddrPort("10.0.0.21:81") },
		"alpha":              func(c *conf.Check) { c.Alpha = true },
	} {
		t.Run(name, func(t *testing.T) {
			other := onPort(81)
			change(&other.RealServers[0].Checks[0])
			_, checks, _ := newTestBalancer(t, server(80), other)
			if len(checks.keys()) != 3 {
				t.Errorf("the checks are %q, want 3", checks.keys())
			}
		})
	}
	t.Run("warmup does not matter", func(t *testing.T) {
		other := onPort(81)
		other.RealServers[0].Checks[0].Warmup = time.Hour
		if _, checks, _ := newTestBalancer(t, server(80), other); len(checks.keys()) != 2 {
			t.Errorf("the checks are %q, want 2", checks.keys())
		}
	})
	t.Run("timing changed by a reload", func(t *testing.T) {
		b, checks, table := newTestBalancer(t, server(80))
		checks.set(t, check21, false)
		slower := server(80)
		slower.RealServers[0].Checks[0].DelayLoop *= 3
		if err := b.Configure([]conf.VirtualServer{slower}); err != nil {
			t.Fatal(err)
		}
		if st := checks.states[check21]; !st.Known || st.Inherited || table.has(21) {
			t.Errorf("after the reload %+v, table %v; want the state of before", st, table.want)
		}
	})
}

// O39 for shared checks: two services whose verdicts differ get one check in common.
// Each server keeps its verdict until that has a result, and then both have the same.
func TestO39ServicesThatComeToShareACheck(t *testing.T) {
	other := onPort(81)
	other.RealServers[0].Checks[0].Target = netip.MustParseAddrPort("10.0.0.21:81")
	b, checks, table := newTestBalancer(t, server(80), other)
	checks.set(t, check21, false)
	checks.set(t, check21port, true)
	b.HealthChanged()

	same := func(v conf.VirtualServer) conf.VirtualServer {
		v.RealServers[0].Checks[0].Target = netip.MustParseAddrPort("10.0.0.21:82")
		return v
	}
	both := []conf.VirtualServer{same(server(80)), same(onPort(81))}
	has := func(port uint16) bool {
		_, ok := table.want[ipvs.AddressKey(ipvs.TCP, netip.AddrPortFrom(both[0].Address.Addr(), port))].Destinations[both[0].RealServers[0].Address]
		return ok
	}
	if err := b.Configure(both); err != nil {
		t.Fatal(err)
	}
	if has(80) || !has(81) {
		t.Errorf("after the reload the table is %v, want r21 in the second service alone, as before", table.want)
	}
	const shared = "TCP_CHECK 10.0.0.21:82"
	checks.set(t, shared, true)
	b.HealthChanged()
	if !has(80) || !has(81) {
		t.Errorf("after the check passed the table is %v", table.want)
	}
	if err := b.Configure(both); err != nil {
		t.Fatal(err)
	}
	if want := []string{"TCP_CHECK 10.0.0.21:82", "TCP_CHECK 10.0.0.22:80"}; !slices.Equal(checks.keys(), want) {
		t.Errorf("at the next reload the checks are %q, want %q", checks.keys(), want)
	}
}

// Two services have a check in common, one of them with alpha: when its server is taken out, the other one's goes on as it
// was.
func TestSharedCheckOfAnAlphaThatGoes(t *testing.T) {
	first, second := server(80), onPort(81)
	for _, v := range []*conf.VirtualServer{&first, &second} {
		v.RealServers[0].Checks[0].Target = netip.MustParseAddrPort("10.0.0.21:82")
	}
	first.RealServers[0].Checks[0].Alpha = true
	b, checks, table := newTestBalancer(t, first, second)
	in := func() bool {
		_, in := table.want[ipvs.AddressKey(ipvs.TCP, second.Address)].Destinations[second.RealServers[0].Address]
		return in
	}
	if !in() || table.has(21) {
		t.Fatalf("at the start: %v", table.want)
	}
	first.RealServers = first.RealServers[1:]
	for range 2 {
		if err := b.Configure([]conf.VirtualServer{first, second}); err != nil {
			t.Fatal(err)
		}
		if !in() || len(checks.states) != 2 {
			t.Errorf("without the one with alpha: %v, checks %v", table.want, checks.keys())
		}
	}
}

// alpha that comes with a reload takes no server out that takes connections without a result yet.
func TestAlphaByReload(t *testing.T) {
	v := server(80)
	b, _, table := newTestBalancer(t, v)
	w := server(81)
	for i := range w.RealServers {
		w.RealServers[i].Checks[0].Alpha = true
	}
	if err := b.Configure([]conf.VirtualServer{w}); err != nil {
		t.Fatal(err)
	}
	if got := table.weights(); got != [2]int{1, 1} {
		t.Errorf("weights %v: alpha takes servers out that are not new", got)
	}
}

// alpha: a new server is out until its check passes, is no event before and one then;
// one that was up before the reload stays in.
func TestAlphaStartsDown(t *testing.T) {
	alpha := func(v conf.VirtualServer) conf.VirtualServer {
		v.RealServers[0].Checks[0].Alpha = true
		return v
	}
	checks, table := &fakeChecks{}, &fakeTable{}
	var lines []string
	b := newBalancer(checks, table, func(line string) { lines = append(lines, line) }, zap.NewNop())
	if err := b.Configure([]conf.VirtualServer{alpha(server(80))}); err != nil {
		t.Fatal(err)
	}
	if table.has(21) || !table.has(22) {
		t.Errorf("at the start the table is %v, want r22 alone", table.want)
	}
	checks.set(t, check21, true)
	b.HealthChanged()
	if !table.has(21) {
		t.Error("the check passed and the server is still out")
	}
	want := []string{"VS [10.9.0.100]:tcp:80 UP", "RS [10.0.0.21]:tcp:80 [10.9.0.100]:tcp:80 UP"}
	if !slices.Equal(lines, want) {
		t.Errorf("events %q, want %q", lines, want)
	}

	b, checks, table = newTestBalancer(t, server(80))
	checks.set(t, check21, true)
	changed := alpha(server(81))
	if err := b.Configure([]conf.VirtualServer{changed}); err != nil {
		t.Fatal(err)
	}
	if !table.has(21) {
		t.Error("a reload that adds alpha took a server out that was up")
	}
}

func TestSharedLogFields(t *testing.T) {
	s := newShared(nil, nil, nil, 2)
	named := make([]string, 3)
	job := run.Job{Key: "x", Fields: []zap.Field{zap.String("check", "x")}}
	failing := job
	failing.LogFailures = true
	for i, j := range []run.Job{job, failing, {Key: "y"}} {
		s.add(j, request{name: &named[i]})
	}
	jobs := s.all()
	if len(jobs) != 2 || !jobs[0].LogFailures || len(jobs[1].Fields) != 0 ||
		fmt.Sprint(jobs[0].Fields[1]) != fmt.Sprint(zap.Int("shared_by", 2)) {
		t.Errorf("%+v", jobs)
	}
	if jobs[0].Inherit != healthcheck.Unknown {
		t.Errorf("inherits %v", jobs[0].Inherit)
	}
}
