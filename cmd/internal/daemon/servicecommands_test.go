package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"vipd/cmd/internal/notify"
	"vipd/conf"
)

// ran keeps what would have been run.
type ran []string

func (r *ran) Run(e notify.Event, commands ...notify.Command) {
	for _, c := range commands {
		*r = append(*r, e.Kind+" "+e.Name+": "+strings.Join(append(slices.Clone(c.Argv), c.Env...), " "))
	}
}

// commanded is server(80) with commands.
func commanded(omega bool) conf.VirtualServer {
	v := server(80)
	v.Omega = omega
	v.Up, v.Down = conf.Command{Argv: []string{"quorum", "up"}}, conf.Command{Argv: []string{"quorum", "down"}}
	v.RealServers[0].Up, v.RealServers[0].Down = conf.Command{Argv: []string{"up"}}, conf.Command{Argv: []string{"down"}}
	return v
}

const (
	vsUp   = "VS tcp 10.9.0.100:80: quorum up VIPD_SERVICE=tcp 10.9.0.100:80 VIPD_STATE=UP"
	vsDown = "VS tcp 10.9.0.100:80: quorum down VIPD_SERVICE=tcp 10.9.0.100:80 VIPD_STATE=DOWN"
	rsUp   = "VS tcp 10.9.0.100:80: up VIPD_SERVICE=tcp 10.9.0.100:80 VIPD_SERVER=10.0.0.21:80 VIPD_STATE=UP"
	rsDown = "VS tcp 10.9.0.100:80: down VIPD_SERVICE=tcp 10.9.0.100:80 VIPD_SERVER=10.0.0.21:80 VIPD_STATE=DOWN"
)

// quorum_up and its kin run when the lines of the FIFO are written, server before service, and once each.
func TestCommandsOfServices(t *testing.T) {
	var got ran
	checks := &fakeChecks{}
	b := newBalancer(checks, &fakeTable{}, func(string) {}, zap.NewNop())
	b.run = &got
	v := commanded(false)
	v.RealServers = v.RealServers[:1]
	configure := func() {
		t.Helper()
		if err := b.Configure([]conf.VirtualServer{v}); err != nil {
			t.Fatal(err)
		}
	}
	configure()
	for _, healthy := range []bool{true, false, false, true} {
		checks.set(t, check21, healthy)
		b.HealthChanged()
	}
	configure() // a reload runs nothing
	if want := []string{vsUp, rsDown, vsDown, rsUp, vsUp}; !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// With omega the stop runs the commands of what was up, without it none; a reload that takes away always does.
func TestOmega(t *testing.T) {
	other := server(80)
	other.Address = netip.MustParseAddrPort("10.9.0.101:80")
	fewer := commanded(true)
	fewer.RealServers = fewer.RealServers[1:]
	for _, c := range []struct {
		name  string
		omega bool
		dead  bool
		end   func(b *balancer) error
		want  []string
	}{
		{"stop", true, false, func(b *balancer) error { b.Omega(); b.Omega(); b.HealthChanged(); return nil }, []string{vsUp, rsDown, vsDown}},
		{"stop without omega", false, false, func(b *balancer) error { b.Omega(); return nil }, []string{vsUp}},
		{"stop of a dead server", true, true, func(b *balancer) error { b.Omega(); return nil }, []string{vsUp, rsDown, vsDown}},
		{"service taken away", true, false, func(b *balancer) error { return b.Configure([]conf.VirtualServer{other}) }, []string{vsUp, rsDown, vsDown}},
		{"server taken away", true, false, func(b *balancer) error { return b.Configure([]conf.VirtualServer{fewer}) }, []string{vsUp, rsDown}},
		{"service taken away without omega", false, false, func(b *balancer) error { return b.Configure([]conf.VirtualServer{other}) }, []string{vsUp, rsDown, vsDown}},
	} {
		var got ran
		checks := &fakeChecks{}
		b := newBalancer(checks, &fakeTable{}, func(string) {}, zap.NewNop())
		b.run = &got
		if err := b.Configure([]conf.VirtualServer{commanded(c.omega)}); err != nil {
			t.Fatal(err)
		}
		if c.dead {
			checks.set(t, check21, false)
			b.HealthChanged()
		}
		if err := c.end(b); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s", c.name, strings.Join(got, "\n"))
		}
	}
}
