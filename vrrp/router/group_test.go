package router

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"vipd/vrrp"
)

// member is an instance of a sync group: A on eth0, B on eth1, C on eth2.
func member(name string, priority uint8, group string) Instance {
	i := name[0] - 'A'
	return config(priority, func(in *Instance) {
		in.Name, in.VRID, in.Interface = name, 51+i, fmt.Sprintf("eth%d", i)
		in.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 9, i, 100})}
		in.SyncGroup, in.Grouped = group, group != ""
	})
}

// groupLinks are three interfaces in order.
func groupLinks(host byte) map[string]Link {
	links := map[string]Link{}
	for i := range 3 {
		links[fmt.Sprintf("eth%d", i)] = link(2+i, fmt.Sprintf("10.9.%d.%d", i, host))
	}
	return links
}

// setLink changes one interface.
func (d *node) setLink(iface string, carrier bool) {
	d.mu.Lock()
	links := maps.Clone(d.links)
	d.mu.Unlock()
	l := links[iface]
	l.Carrier = carrier
	links[iface] = l
	d.setLinks(links)
}

// setCut stops what instances on an interface send, and lets it through again.
func (d *node) setCut(iface string, cut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut[iface] = cut
}

// states are the states of all instances and groups, "A MASTER, B MASTER, G MASTER".
func (d *node) states() string {
	synctest.Wait()
	var out []string
	for _, s := range d.router.Status() {
		out = append(out, s.Name+" "+s.Status.State.String())
	}
	for _, g := range d.router.GroupStatus() {
		out = append(out, g.Name+" "+g.State.String())
	}
	return strings.Join(out, ", ")
}

// TestGroupScenarios runs testdata/*.txt, each in a bubble of its own. Every command
// prints the states of all nodes.
func TestGroupScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				s := &groupScenario{network: n, config: map[string][]Instance{}}
				datadriven.RunTest(t, path, s.run)
			})
		})
	}
}

type groupScenario struct {
	*network
	config map[string][]Instance
}

func (s *groupScenario) run(t *testing.T, d *datadriven.TestData) string {
	var name string
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	switch d.Cmd {
	case "node", "reload":
		// node d1 priority=200 members=(A,B) [alone=(C)] [nopreempt] [chk=-20]
		list := s.instances(d)
		if d.Cmd == "reload" {
			s.nodes[name].apply(list...)
			break
		}
		n := s.boot(name, list...)
		n.setLinks(groupLinks(name[1] - '0'))
	case "link":
		// link d1 eth0 down
		s.nodes[name].setLink(d.CmdArgs[1].Key, d.CmdArgs[2].Key == "up")
	case "lan":
		// lan eth0 cut: nobody hears anybody there
		for _, n := range s.nodes {
			n.setCut(name, d.CmdArgs[1].Key == "cut")
		}
	case "script":
		s.nodes[name].router.TrackResult("chk", d.CmdArgs[1].Key == "good")
	case "fought":
		s.nodes[name].router.Fought(d.CmdArgs[1].Key, "VIP", "10.9.0.100")
	case "stop":
		s.nodes[name].kill()
	case "pass":
		dur, err := time.ParseDuration(name)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.network.run(dur)
	case "log":
		// log d1: transitions and resignations since the last log, in order of time. Which
		// of several adverts of one moment is received first is chance, so what follows
		// from it is left out.
		var out []string
		for _, e := range s.nodes[name].take() {
			text := e.text
			if i := strings.Index(text, " MASTER -> BACKUP"); i >= 0 {
				text = text[:i] + " MASTER -> BACKUP"
			} else if strings.HasPrefix(text, "group ") {
				text, _, _ = strings.Cut(text, ":")
			}
			if strings.Contains(text, " -> ") {
				out = append(out, fmt.Sprintf("%9v %s", e.at.Round(10*time.Millisecond), text))
			}
		}
		slices.SortStableFunc(out, func(a, b string) int {
			if a[:9] == b[:9] {
				return strings.Compare(a, b)
			}
			return 0
		})
		return strings.Join(out, "\n") + "\n"
	case "why":
		for _, st := range s.nodes[name].router.Status() {
			if st.Name == d.CmdArgs[1].Key {
				waiting, _, _ := strings.Cut(st.Waiting, ":")
				reason := ""
				if st.Status.State == vrrp.Fault {
					reason = st.Status.Reason
				}
				return fmt.Sprintf("%v %s\nwaiting: %s\npriority %d\n", st.Status.State, reason, waiting, st.Status.EffectivePriority)
			}
		}
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		fmt.Fprintf(&b, "%s: %s\n", name, s.nodes[name].states())
	}
	return b.String()
}

func (s *groupScenario) instances(d *datadriven.TestData) []Instance {
	priority, nopreempt := 100, false
	var grouped, alone []string
	var tracks []Track
	for _, a := range d.CmdArgs[1:] {
		switch a.Key {
		case "priority":
			fmt.Sscan(a.Vals[0], &priority)
		case "members":
			grouped = a.Vals
		case "alone":
			alone = a.Vals
		case "nopreempt":
			nopreempt = true
		case "chk":
			tracks = []Track{{Name: "chk"}}
			fmt.Sscan(a.Vals[0], &tracks[0].Weight)
		}
	}
	var list []Instance
	for _, name := range grouped {
		in := member(name, uint8(priority), "G")
		in.NoPreempt, in.TrackScripts = nopreempt, tracks
		list = append(list, in)
	}
	for _, name := range alone {
		in := member(name, uint8(priority), "")
		in.NoPreempt = nopreempt
		list = append(list, in)
	}
	return list
}

// TestGroupProperties: whatever happens to two directors with one group, all members
// of a director are in the same state after every turn of its loop (so none is MASTER
// while another is in FAULT), and when all is well again one director has everything.
func TestGroupProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type op struct {
			what, node, iface string
			on                bool
			wait              time.Duration
		}
		gen := rapid.Custom(func(r *rapid.T) op {
			return op{
				what:  rapid.SampledFrom([]string{"link", "link", "lan", "script", "fought", "freeze", "priority"}).Draw(r, "what"),
				node:  rapid.SampledFrom([]string{"d1", "d2"}).Draw(r, "node"),
				iface: rapid.SampledFrom([]string{"eth0", "eth1", "eth2"}).Draw(r, "iface"),
				on:    rapid.Bool().Draw(r, "on"),
				wait:  time.Duration(rapid.IntRange(0, 5000).Draw(r, "ms")) * time.Millisecond,
			}
		})
		ops := rapid.SliceOfN(gen, 1, 15).Draw(r, "ops")
		nopreempt := rapid.Bool().Draw(r, "nopreempt")
		equal := rapid.Bool().Draw(r, "equal priorities")
		wrong := ""
		inBubble(t, func(t *testing.T, n *network) {
			list := func(priority uint8) (out []Instance) {
				for _, name := range []string{"A", "B", "C"} {
					in := member(name, priority, "G")
					in.NoPreempt = nopreempt
					in.TrackScripts = []Track{{Name: "chk", Weight: -50}, {Name: "fatal"}}
					out = append(out, in)
				}
				return out
			}
			first := uint8(120)
			if equal {
				first = 100
			}
			n.boot("d1", list(first)...).setLinks(groupLinks(1))
			n.boot("d2", list(100)...).setLinks(groupLinks(2))
			for _, d := range n.nodes {
				d.router.TrackResult("fatal", true)
				d.router.TrackResult("chk", true)
			}
			check := func() {
				for name, d := range n.nodes {
					s := d.states()
					_, state, _ := strings.Cut(s[strings.LastIndex(s, ", ")+1:], "G ")
					if strings.Count(s, " "+state) != 4 && wrong == "" {
						wrong = fmt.Sprintf("%v %s: %s", n.now(), name, s)
					}
				}
			}
			for _, o := range ops {
				d := n.nodes[o.node]
				switch o.what {
				case "link":
					d.setLink(o.iface, o.on)
				case "lan":
					for _, d := range n.nodes {
						d.setCut(o.iface, !o.on)
					}
				case "script":
					d.router.TrackResult("chk", o.on)
				case "fought":
					d.router.TrackResult("fatal", o.on)
				case "freeze":
					d.freeze(o.wait, 0)
				case "priority":
					d.apply(list(100 + uint8(o.wait/time.Second))...)
				}
				check()
				n.run(o.wait)
				check()
			}
			for name, d := range n.nodes { // all is well again
				d.setLinks(groupLinks(name[1] - '0'))
				for i := range 3 {
					d.setCut(fmt.Sprintf("eth%d", i), false)
				}
				d.router.TrackResult("chk", true)
				d.router.TrackResult("fatal", true)
			}
			n.run(30 * time.Second)
			check()
			masters := 0
			for name, d := range n.nodes {
				switch s := d.states(); s {
				case "A MASTER, B MASTER, C MASTER, G MASTER":
					masters++
				case "A BACKUP, B BACKUP, C BACKUP, G BACKUP":
				default:
					wrong += fmt.Sprintf(" %s in the end: %s", name, s)
				}
				for _, st := range d.router.Status() {
					if d.wanted[st.Name] != (st.Status.State == vrrp.Master) {
						wrong += fmt.Sprintf(" %s: addresses of %s wanted %v in %v", name, st.Name, d.wanted[st.Name], st.Status.State)
					}
				}
			}
			if masters != 1 {
				wrong += fmt.Sprintf(" %d masters in the end", masters)
			}
		})
		if wrong != "" {
			r.Fatalf("%s\nafter %+v", wrong, ops)
		}
	})
}
