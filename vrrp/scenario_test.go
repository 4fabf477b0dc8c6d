package vrrp

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

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
		// env [source=10.9.0.1] [faults=(a,b)] [pending] [weight=-20]: the whole environment
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
		s.handle(Event{Kind: EventShutdown})
	case "status":
		s.status()
		return
	default:
		d.Fatalf(s.t, "unknown command %q", d.Cmd)
	}
	s.state()
}

func (s *scenario) configure(d *datadriven.TestData) {
	for _, a := range d.CmdArgs {
		on := len(a.Vals) == 0 || a.Vals[0] == "true"
		switch a.Key {
		case "version":
			s.cfg.Version = s.uint8(d, a)
		case "vrid":
			s.cfg.VRID = s.uint8(d, a)
		case "priority":
			s.cfg.Priority = s.uint8(d, a)
		case "interval":
			s.cfg.AdvertInterval = s.parse(d, a.Vals[0])
		case "adverts":
			s.cfg.DownTimerAdverts = int(s.uint8(d, a))
		case "vips":
			s.cfg.Addresses = addrs(a.Vals)
		case "pass":
			s.cfg.AuthPass = a.Vals[0]
		case "ipv6":
			s.cfg.IPv6 = on
		case "nopreempt":
			s.cfg.NoPreempt = on
		case "want-master":
			s.cfg.WantMaster = on
		case "lower-prio-no-advert":
			s.cfg.LowerPrioNoAdvert = on
		case "preempt-delay":
			s.cfg.PreemptDelay = s.parse(d, a.Vals[0])
		case "ignore-adverts":
			s.cfg.IgnoreAdverts = on
		case "late-priority":
			s.cfg.LatePriority = s.uint8(d, a)
		case "skip-check-addr":
			s.cfg.SkipCheckAddr = on
		case "peers": // 10.9.0.1 or 10.9.0.1/250/255 with bounds of the TTL
			s.cfg.Unicast, s.cfg.Peers = true, s.peers(d, a.Vals)
		case "shared-mac":
			s.cfg.SharedMAC = on
		case "any-source":
			s.cfg.AnySource = on
		default:
			d.Fatalf(s.t, "unknown argument %q", a.Key)
		}
	}
}

func (s *scenario) peers(d *datadriven.TestData, texts []string) (out []Peer) {
	for _, text := range texts {
		parts := strings.Split(text, "/")
		p := Peer{Address: netip.MustParseAddr(parts[0])}
		if len(parts) == 3 {
			p.MinTTL = s.uint8(d, datadriven.CmdArg{Vals: parts[1:]})
			p.MaxTTL = s.uint8(d, datadriven.CmdArg{Vals: parts[2:]})
		}
		out = append(out, p)
	}
	return out
}

func (s *scenario) env(d *datadriven.TestData) Env {
	var e Env
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "source":
			e.Source = netip.MustParseAddr(a.Vals[0])
		case "faults":
			for _, v := range a.Vals {
				e.Faults = append(e.Faults, strings.ReplaceAll(v, "_", " "))
			}
		case "pending":
			e.Pending = "the first result of script chk"
		case "weight":
			w, err := strconv.Atoi(a.Vals[0])
			if err != nil {
				d.Fatalf(s.t, "%v", err)
			}
			e.Weight = w
		default:
			d.Fatalf(s.t, "unknown argument %q", a.Key)
		}
	}
	return e
}

func (s *scenario) advert(d *datadriven.TestData) {
	a := packet.Advert{Version: s.cfg.Version, VRID: s.cfg.VRID, Interval: s.cfg.AdvertInterval, Addrs: s.cfg.Addresses}
	ttl, from := uint8(255), netip.Addr{}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "from":
			from = netip.MustParseAddr(arg.Vals[0])
		case "priority":
			a.Priority = s.uint8(d, arg)
		case "interval":
			a.Interval = s.parse(d, arg.Vals[0])
		case "version":
			a.Version = s.uint8(d, arg)
		case "ttl":
			ttl = s.uint8(d, arg)
		case "pass":
			a.SetPassword(arg.Vals[0])
		case "vips":
			a.Addrs = addrs(arg.Vals)
		default:
			d.Fatalf(s.t, "unknown argument %q", arg.Key)
		}
	}
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
	return s.parse(d, d.CmdArgs[0].Key)
}

func (s *scenario) parse(d *datadriven.TestData, text string) time.Duration {
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	return v
}

func (s *scenario) uint8(d *datadriven.TestData, a datadriven.CmdArg) uint8 {
	v, err := strconv.ParseUint(a.Vals[0], 10, 8)
	if err != nil {
		d.Fatalf(s.t, "%v", err)
	}
	return uint8(v)
}

func addrs(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if text != "" {
			out = append(out, netip.MustParseAddr(text))
		}
	}
	return out
}
