package daemon

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/vrrp/track"
)

// misc is a MISC_CHECK of a shell command.
func misc(command string) conf.Check {
	return conf.Check{Kind: "MISC_CHECK", Argv: []string{"/bin/sh", "-c", command}, ConnectTimeout: 500 * time.Millisecond, DelayLoop: time.Second}
}

// TestPrograms: how programs end, run as the daemon runs them.
func TestPrograms(t *testing.T) {
	m := newMachine()
	m.configure(conf.Global{MaxProcesses: 2})
	dynamic := misc("exit 12")
	dynamic.Dynamic = true
	missing := misc("")
	missing.Argv = []string{"/no/such/program"}
	nobody := misc("exit 0")
	nobody.User.Name = "no-such-user-here"
	for name, tt := range map[string]struct {
		check  conf.Check
		ok     bool
		local  bool
		weight healthcheck.Weighting
		detail string
	}{
		"good":        {misc("exit 0"), true, false, healthcheck.Weighting{}, "exit status 0"},
		"bad":         {misc("echo no route; exit 1"), false, false, healthcheck.Weighting{}, "exit status 1: no route"},
		"dynamic":     {dynamic, true, false, healthcheck.Weighting{Set: true, N: 10}, "weight 10"},
		"killed":      {misc("kill -9 $$"), false, false, healthcheck.Weighting{}, "signal: killed"},
		"hangs":       {misc("sleep 100"), false, false, healthcheck.Weighting{}, "timeout after 500ms"},
		"not there":   {missing, false, true, healthcheck.Weighting{}, "no such file"},
		"nobody's":    {nobody, false, true, healthcheck.Weighting{}, "no-such-user-here"},
		"with a word": {conf.Check{Kind: "MISC_CHECK", Argv: []string{"/usr/bin/test", "a b", "=", "a b"}, ConnectTimeout: time.Second}, true, false, healthcheck.Weighting{}, "exit status 0"},
	} {
		t.Run(name, func(t *testing.T) {
			key, checker, err := m.checker(&tt.check)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(key, "MISC_CHECK ") {
				t.Errorf("key %q", key)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit(&tt.check))
			defer cancel()
			r := checker.Check(ctx)
			if r.OK != tt.ok || r.LocalFault != tt.local || r.Weighting != tt.weight || !strings.Contains(r.Detail, tt.detail) {
				t.Errorf("%+v, want OK %v, local %v, %q", r, tt.ok, tt.local, tt.detail)
			}
		})
	}
}

// TestSecurity: a program that others could change is not run, and that is no
// failure of the server.
func TestSecurity(t *testing.T) {
	m := newMachine()
	m.configure(conf.Global{MaxProcesses: 2, ScriptSecurity: true})
	file := filepath.Join(t.TempDir(), "probe")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o777); err != nil { // not what umask makes of it
		t.Fatal(err)
	}
	c := conf.Check{Kind: "MISC_CHECK", Argv: []string{file}, ConnectTimeout: time.Second}
	_, checker, err := m.checker(&c)
	if err != nil {
		t.Fatal(err)
	}
	if r := checker.Check(t.Context()); r.OK || !r.LocalFault || !strings.Contains(r.Detail, "refused: "+file) {
		t.Errorf("%+v", r)
	}
}

// TestWeightsReachThePlan: what checks say of the weight is in the wanted table,
// and a file that changes has the checks run that look at it.
func TestWeightsReachThePlan(t *testing.T) {
	v := server(80)
	r := &v.RealServers[0]
	r.Weight = 5
	r.Checks = []conf.Check{misc("exit 12"), {Kind: "FILE_CHECK", File: "load", Dynamic: true, Weight: 2, DelayLoop: time.Second, ConnectTimeout: time.Second}}
	checks, table := &fakeChecks{}, &fakeTable{}
	b := newBalancer(checks, table, func(string) {}, zap.NewNop())
	var asked []string
	b.local.again = func(keys []string) { asked = append(asked, keys...) }
	b.local.read = func() []track.FileStatus { return []track.FileStatus{{Name: "load", Known: true, Value: 4}} }
	if err := b.Configure([]conf.VirtualServer{v}); err != nil {
		t.Fatal(err)
	}
	program, file := b.services[0].keys[0][0], b.services[0].keys[0][1]
	b.local.FileChanged("other")
	b.local.FileChanged("load")
	if !slices.Equal(asked, []string{file}) {
		t.Errorf("asked for %q, want %q", asked, file)
	}
	weight := func() int {
		b.HealthChanged()
		return table.want[serviceKeys(&v)[0]].Destinations[r.Address].Weight
	}
	up := run.Status{Known: true, Healthy: true}
	checks.states = map[string]run.Status{program: up, file: up}
	if got := weight(); got != 5 {
		t.Errorf("weight %d, want the configured one", got)
	}
	set, add := up, up
	set.Weighting, add.Weighting = healthcheck.Weighting{Set: true, N: 10}, healthcheck.Weighting{N: 8}
	checks.states = map[string]run.Status{program: set, file: add}
	if got := weight(); got != 18 {
		t.Errorf("weight %d, want 10 + 8", got)
	}
}

// TestCheckTarget is what status shows of a check's target.
func TestCheckTarget(t *testing.T) {
	target := netip.MustParseAddrPort("10.0.0.21:80")
	for want, c := range map[string]conf.Check{
		"10.0.0.21:80":               {Target: target},
		"10.0.0.21":                  {Target: netip.AddrPortFrom(target.Addr(), 0)},
		"10.0.0.21:80 via 10.0.0.22": {Target: target, Via: netip.MustParseAddr("10.0.0.22")},
		"/bin/true":                  {Argv: []string{"/bin/true", "x"}},
		"track_file load":            {File: "load"},
	} {
		if got := checkTarget(&c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
