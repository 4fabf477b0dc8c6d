package vrrp

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"vipd/test/args"
	"vipd/vrrp/packet"
)

// TestScenarios runs testdata/*.txt. Time starts at 0 and moves only with
// pass-time and freeze. Every command prints the actions it led to and then the
// time, the state and the next deadline.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &scenario{t: t}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				s.t, s.out = t, strings.Builder{}
				s.run(d)
				return s.out.String()
			})
		})
	}
}

// epoch is time 0 of every scenario.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// scenario is one machine in one file.
type scenario struct {
	t   *testing.T
	cfg Config
	m   *Machine
	now time.Duration
	out strings.Builder
}

func (s *scenario) run(d *datadriven.TestData) {
	switch d.Cmd {
	case "instance":
		// instance version=3 priority=100 interval=1s [nopreempt] ...: a new machine at time 0
		s.cfg = Config{
			Name: "VI", Interface: "eth0", VRID: 51, Version: 3, Priority: 100, AdvertInterval: time.Second,
			DownTimerAdverts: 3, Addresses: []netip.Addr{netip.MustParseAddr("10.9.0.100")},
		}
		s.now = 0
		s.configure(d)
		s.m = New(s.cfg)
	case "env":
		// env [source=10.9.0.1] [faults=(a,b)] [pending] [weight=-20] [ear=2]: the whole environment
		s.handle(Event{Kind: EventEnv, Env: s.env(d)})
	case "advert":
		// advert from=10.9.0.2 priority=200 [interval=1s] [vips=(..)] [ttl=254] [version=2] [pass=x]: Admit, then Handle
		s.advert(d)
	case "pass-time":
		// pass-time 3.5s: ticks come when they are due
		s.passTime(s.duration(d))
	case "freeze":
		// freeze 5s: time passes without ticks; what is due then comes late
		s.now += s.duration(d)
	case "tick":
		// tick: a tick now, due or not
		s.handle(Event{Kind: EventTick})
	case "config":
		// config priority=90 ...: changes the configuration as instance set it
		s.configure(d)
		cfg := s.cfg
		s.handle(Event{Kind: EventConfig, Config: &cfg})
	case "shutdown":
		// shutdown [wait=5s]: a MASTER keeps its addresses for the successor at most so long
		var wait time.Duration
		args.Fields{"wait": &wait}.Args(s.t, d)
		s.handle(Event{Kind: EventShutdown, Wait: wait})
	case "status":
		s.status()
		return
	default:
		d.Fatalf(s.t, "unknown command %q", d.Cmd)
	}
	s.state()
}

func (s *scenario) configure(d *datadriven.TestData) {
	args.Fields{
		"version":              &s.cfg.Version,
		"vrid":                 &s.cfg.VRID,
		"priority":             &s.cfg.Priority,
		"interval":             &s.cfg.AdvertInterval,
		"adverts":              &s.cfg.DownTimerAdverts,
		"vips":                 &s.cfg.Addresses,
		"pass":                 &s.cfg.AuthPass,
		"ipv6":                 &s.cfg.IPv6,
		"nopreempt":            &s.cfg.NoPreempt,
		"want-master":          &s.cfg.WantMaster,
		"lower-prio-no-advert": &s.cfg.LowerPrioNoAdvert,
		"preempt-delay":        &s.cfg.PreemptDelay,
		"sync-delay":           &s.cfg.SyncDelay,
		"ignore-adverts":       &s.cfg.IgnoreAdverts,
		"late-priority":        &s.cfg.LatePriority,
		"skip-check-addr":      &s.cfg.SkipCheckAddr,
		"any-source":           &s.cfg.AnySource,
		"shared-mac":           &s.cfg.SharedMAC,
		"peers": func(texts []string) (err error) { // 10.9.0.1 or 10.9.0.1/250/255 with bounds of the TTL
			s.cfg.Unicast = true
			s.cfg.Peers, err = peers(texts)
			return err
		},
	}.Args(s.t, d)
}

func peers(texts []string) (all []Peer, err error) {
	for _, text := range texts {
		var p Peer
		parts := strings.Split(text, "/")
		if p.Address, err = netip.ParseAddr(parts[0]); err != nil {
			return nil, err
		}
		if len(parts) == 3 {
			var err1, err2 error
			p.MinTTL, err1 = args.Uint8(parts[1])
			p.MaxTTL, err2 = args.Uint8(parts[2])
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
		}
		all = append(all, p)
	}
	return all, nil
}

func (s *scenario) env(d *datadriven.TestData) Env {
	var e Env
	args.Fields{
		"source": &e.Source,
		"weight": &e.Weight,
		"ear":    &e.Ear,
		"pending": func([]string) error {
			e.Pending = "the first result of script chk"
			return nil
		},
		"faults": func(texts []string) error {
			for _, text := range texts {
				e.Faults = append(e.Faults, strings.ReplaceAll(text, "_", " "))
			}
			return nil
		},
	}.Args(s.t, d)
	return e
}

func (s *scenario) advert(d *datadriven.TestData) {
	a := packet.Advert{Version: s.cfg.Version, VRID: s.cfg.VRID, Interval: s.cfg.AdvertInterval, Addrs: s.cfg.Addresses}
	ttl, from, password := uint8(255), netip.Addr{}, ""
	args.Fields{
		"from":     &from,
		"priority": &a.Priority,
		"interval": &a.Interval,
		"version":  &a.Version,
		"vips":     &a.Addrs,
		"ttl":      &ttl,
		"pass":     &password,
	}.Args(s.t, d)
	a.SetPassword(password)
	if reason := s.m.Admit(epoch.Add(s.now), &a, from, ttl); reason != packet.DropNone {
		fmt.Fprintf(&s.out, "dropped: %s\n", reason)
		return
	}
	s.handle(Event{Kind: EventAdvert, Advert: &a, From: from})
}

func (s *scenario) passTime(d time.Duration) {
	end := s.now + d
	for range 10000 {
		at, ok := s.m.Deadline()
		if !ok || at.Sub(epoch) > end {
			s.now = end
			return
		}
		s.now = max(s.now, at.Sub(epoch))
		fmt.Fprintf(&s.out, "at %v:\n", s.now)
		s.handle(Event{Kind: EventTick})
	}
	s.t.Fatal("the deadline does not move")
}

func (s *scenario) handle(ev Event) {
	for _, a := range s.m.Handle(epoch.Add(s.now), ev) {
		fmt.Fprintf(&s.out, "  %v\n", a)
	}
}

func (s *scenario) state() {
	fmt.Fprintf(&s.out, "%v %v", s.now, s.m.State())
	if at, ok := s.m.Deadline(); ok {
		fmt.Fprintf(&s.out, ", due %v", at.Sub(epoch))
	}
	s.out.WriteByte('\n')
}

func (s *scenario) status() {
	st := s.m.Status()
	fmt.Fprintf(&s.out, "%v since %v: %s\n", st.State, st.Since.Sub(epoch), st.Reason)
	fmt.Fprintf(&s.out, "priority %d, effective %d\n", st.Priority, st.EffectivePriority)
	fmt.Fprintf(&s.out, "master %v, priority %d, interval %v\n", st.MasterAddress, st.MasterPriority, st.MasterInterval)
	if !st.PreemptAt.IsZero() {
		fmt.Fprintf(&s.out, "preempting at %v\n", st.PreemptAt.Sub(epoch))
	}
	if st.AddressMismatch {
		s.out.WriteString("address lists differ\n")
	}
}

func (s *scenario) duration(d *datadriven.TestData) time.Duration {
	v, err := time.ParseDuration(d.CmdArgs[0].Key)
	if err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	return v
}
