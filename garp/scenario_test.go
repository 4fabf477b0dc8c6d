package garp

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"vipd/test/args"
)

// TestScenarios runs testdata/scenarios. The commands:
//
//	configure                 lines "NAME iface=eth0 repeat=2 delay=5s … targets=10.0.0.1,10.0.0.2@lo"
//	                          form=reply|both extra=10s extra_all adverts=vrrp.51
//	                          "group eth0,eth1 garp_interval=10ms gna_interval=…": interfaces that share a gap
//	link name=eth0 [index=2 mac=1 noarp down router vmac base=bond0 gone]
//	once name=VI addr=10.0.0.1 iface=eth0
//	announce name=VI [burst=lower_prio]
//	present name=VI addr=10.0.0.1[,…] [iface=lo]
//	absent name=VI addr=10.0.0.1
//	stop name=VI
//	pass time=1s [fail=enobufs|down [on=eth0]]   lets time pass, prints the frames; replies with "!"
//	status
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{p: NewPlanner(), start: time.Unix(1000, 0)}
		s.now = s.start
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

type scenario struct {
	p          *Planner
	start, now time.Time
}

func (s *scenario) run(t *testing.T, d *datadriven.TestData) string {
	arg := func(key string) string {
		var v string
		d.MaybeScanArgs(t, key, &v)
		return v
	}
	switch d.Cmd {
	case "configure":
		instances, groups := parseInstances(t, d.Input)
		s.p.Configure(s.now, instances, groups)
	case "once":
		s.p.Once(Target{Instance: arg("name"), Address: netip.MustParseAddr(arg("addr")), Interface: arg("iface")})
	case "link":
		s.p.LinkChanged(s.now, parseLink(t, d))
	case "announce":
		b := BurstMaster
		if arg("burst") == "lower_prio" {
			b = BurstLowerPrio
		}
		s.p.Announce(s.now, arg("name"), b)
	case "present", "absent":
		for _, a := range argList(d, "addr") {
			tg := Target{Instance: arg("name"), Address: netip.MustParseAddr(a), Interface: arg("iface")}
			if d.Cmd == "absent" {
				s.p.Absent(tg)
			} else {
				s.p.Present(s.now, tg)
			}
		}
	case "stop":
		s.p.Stop(arg("name"))
	case "pass":
		dur, err := time.ParseDuration(arg("time"))
		if err != nil {
			d.Fatalf(t, "time: %v", err)
		}
		return s.pass(dur, arg("fail"), arg("on"))
	case "status":
		return s.status()
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	return ""
}

// pass sends all that is due and prints one line a moment, interface and kind.
func (s *scenario) pass(dur time.Duration, failing, on string) string {
	var out strings.Builder
	var last string
	end := s.now.Add(dur)
	for {
		f, ok := s.p.Next(s.now)
		for _, d := range s.p.Drops() {
			fmt.Fprintf(&out, "\n%s dropped %s ×%d: %s", s.at(), d.Address, d.Frames, d.Reason)
			last = ""
		}
		if !ok {
			at, ok := s.p.Deadline()
			if !ok || at.After(end) {
				s.now = end
				return strings.TrimPrefix(out.String(), "\n")
			}
			s.now = at
			continue
		}
		head := fmt.Sprintf("\n%s %s %s:", s.at(), f.Outbound, f.Kind)
		if f.Router {
			head = strings.TrimSuffix(head, ":") + " router:"
		}
		fail := failing
		if on != "" && on != f.Outbound {
			fail = ""
		}
		switch fail {
		case "enobufs":
			s.p.Retry(s.now, f, "queue full")
			head += " (full)"
		case "down":
			s.p.Drop(f, "network is down")
			continue
		default:
			s.p.Sent(s.now, f)
		}
		if head != last {
			out.WriteString(head)
			last = head
		}
		out.WriteString(" " + f.Address.String())
		if f.Form == Reply {
			out.WriteString("!")
		}
	}
}

func (s *scenario) at() string {
	return "t=" + s.now.Sub(s.start).String()
}

func (s *scenario) status() string {
	var out strings.Builder
	rel := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return at.Sub(s.start).String()
	}
	for _, st := range s.p.Status() {
		fmt.Fprintf(&out, "%s active=%v present=%d/%d pending=%d sent=%d retried=%d dropped=%d completed=%d refresh=%s error=%q\n",
			st.Name, st.Active, st.Present, st.Targets, st.Pending, st.Sent, st.Retried, st.Dropped, st.Completed,
			rel(st.NextRefresh), st.LastError)
	}
	return out.String()
}

func argList(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return strings.Split(strings.Join(a.Vals, ","), ",")
		}
	}
	return nil
}

func parseLink(t *testing.T, d *datadriven.TestData) Link {
	l := Link{Index: 2, MAC: MAC{2, 0, 0, 0, 0, 1}, ARP: !d.HasArg("noarp"), Up: !d.HasArg("down"), Router: d.HasArg("router"), VMAC: d.HasArg("vmac")}
	var mac int
	d.ScanArgs(t, "name", &l.Name)
	d.MaybeScanArgs(t, "index", &l.Index)
	d.MaybeScanArgs(t, "base", &l.Base)
	if d.MaybeScanArgs(t, "mac", &mac) {
		l.MAC[5] = byte(mac)
	}
	if d.HasArg("gone") {
		l.Index = 0
	}
	return l
}

func parseInstances(t *testing.T, input string) (all []Instance, groups []Group) {
	t.Helper()
	for line := range strings.Lines(input) {
		fields := strings.Fields(line)
		if fields[0] == "group" {
			groups = append(groups, parseGroup(t, fields[1:]))
			continue
		}
		in := Instance{Name: fields[0], Timing: Timing{MasterRepeat: 5, RefreshRepeat: 1}}
		args.Fields{
			"iface":          &in.Interface,
			"adverts":        &in.Adverts,
			"repeat":         &in.Timing.MasterRepeat,
			"delay":          &in.Timing.MasterDelay,
			"refresh":        &in.Timing.Refresh,
			"refresh_repeat": &in.Timing.RefreshRepeat,
			"lower_repeat":   &in.Timing.LowerPrioRepeat,
			"lower_delay":    &in.Timing.LowerPrioDelay,
			"garp_interval":  &in.Timing.GARPInterval,
			"gna_interval":   &in.Timing.GNAInterval,
			"extra":          &in.Timing.Extra,
			"extra_all":      &in.Timing.ExtraAll,
			"form": func(v []string) error {
				in.Form = map[string]Form{"request": Request, "reply": Reply, "both": Both}[v[0]]
				return nil
			},
			"targets": func(v []string) error {
				for _, s := range v {
					a, dev, _ := strings.Cut(s, "@")
					in.Targets = append(in.Targets, Target{Instance: in.Name, Address: netip.MustParseAddr(a), Interface: dev})
				}
				return nil
			},
		}.Words(t, fields[1:])
		all = append(all, in)
	}
	return all, groups
}

func parseGroup(t *testing.T, fields []string) Group {
	t.Helper()
	g := Group{Interfaces: strings.Split(fields[0], ",")}
	args.Fields{"garp_interval": &g.GARPInterval, "gna_interval": &g.GNAInterval}.Words(t, fields[1:])
	return g
}
