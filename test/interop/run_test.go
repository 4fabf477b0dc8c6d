package interop

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/bpf"

	"vipd/test/lab"
)

// span is one event while it was looked at.
type span struct {
	event
	from, to      time.Time
	before, after []view // of each row
	late          []bool // the owners were not as they should be in time
	lines         []line // that the daemons logged and should not have
	stalled       time.Duration
}

// record is all that was seen of a site.
type record struct {
	site    site
	spans   []span
	adverts [][]lab.Advert // by director, as they left it
	probes  []lab.Probe
	held    *lab.Holdings
	nodes   []*lab.Node
}

// run takes a site through its events.
func (s site) run(t *testing.T) *record {
	names := []string{"d1", "d2", "d3"}[:len(s.order)]
	l := lab.New(t, append([]string{"cl"}, names...)...)
	r := &record{site: s, nodes: l.Nodes(names...)}
	cl := l.Node("cl")
	for _, version := range []string{"ipv4", "ipv6"} {
		for _, dev := range []string{"eth0", "eth1"} { // only announcements change what it knows
			cl.Sysctl("net/"+version+"/neigh/"+dev+"/base_reachable_time_ms", "3600000")
		}
	}
	r.held = l.Holdings()
	var ports [][]*lab.Capture
	var directors []*director
	for i, n := range r.nodes {
		ports = append(ports, []*lab.Capture{l.Switch().CaptureOn(n.Name, onlyVRRP()...), l.Switch().CaptureOn(n.Name+"-1", onlyVRRP()...)})
		directors = append(directors, &director{site: s, nodes: r.nodes, place: i})
	}
	rows := s.rows()
	views := make([]view, len(rows))
	for i := range views {
		views[i] = newView(len(r.nodes))
	}
	for _, d := range directors {
		d.start()
		if !r.settled(views, s.wait()+5*time.Second) {
			t.Fatalf("after the start of %s the owners are %s", d.node().Name, r.owners())
		}
		time.Sleep(s.quiet(event{start, 0}))
		d.news()
	}
	stopPing := r.ping(cl)
	time.Sleep(300 * time.Millisecond)

	for _, e := range s.events() {
		sp := span{event: e, before: views}
		for i, v := range views {
			sp.after = append(sp.after, v.after(e, rows[i].nopreempt))
		}
		sp.from = directors[e.at].suffer(e.what)
		r.settled(sp.after, s.wait())
		time.Sleep(s.quiet(e))
		sp.to = time.Now()
		for i := range rows {
			sp.late = append(sp.late, !r.asIs(i, sp.after[i]))
		}
		sp.stalled = ports[0][0].Stalled(sp.from, sp.to)
		for _, d := range directors {
			sp.lines = append(sp.lines, complaints(d, e, d.news())...)
		}
		r.spans = append(r.spans, sp)
		views = nil
		for i, v := range sp.after {
			views = append(views, r.really(i, v))
		}
	}
	r.probes = stopPing()
	r.held.Close()
	if err := r.held.Err(); err != nil {
		t.Errorf("the record of owners is not whole: %v", err)
	}
	for _, p := range ports {
		var list []lab.Advert
		for _, c := range p {
			list = append(list, lab.Filter(c.Adverts(0), func(a lab.Advert) bool { return !a.Sent })...)
		}
		slices.SortStableFunc(list, func(a, b lab.Advert) int { return a.At.Compare(b.At) })
		r.adverts = append(r.adverts, list)
	}
	return r
}

// ping starts the client's pings of all rows; the result ends them.
func (r *record) ping(cl *lab.Node) func() []lab.Probe {
	var targets [2][]netip.Addr
	for _, row := range r.site.rows() {
		targets[row.lan] = append(targets[row.lan], row.vip())
	}
	var pingers []*lab.Pinger
	for lan, list := range targets {
		if len(list) > 0 {
			pingers = append(pingers, cl.PingOn(lan, r.site.pingEvery(), list...))
		}
	}
	return func() (probes []lab.Probe) {
		for _, p := range pingers {
			probes = append(probes, p.Stop()...)
		}
		return probes
	}
}

// pingEvery is how often the client pings each address.
func (s site) pingEvery() time.Duration {
	if s.version == 2 {
		return 40 * time.Millisecond
	}
	return 20 * time.Millisecond
}

// forget lets go of what is not needed once the cells are known.
func (r *record) forget() { r.adverts, r.probes, r.held = nil, nil, nil }

// asIs reports whether a row's owners are what they should be.
func (r *record) asIs(i int, want view) bool {
	must, may := want.owners()
	have := r.held.Now(r.site.rows()[i].vip())
	if !slices.Contains(have, must) {
		return false
	}
	for _, d := range have {
		if d != must && !slices.Contains(may, d) {
			return false
		}
	}
	return true
}

// really is the view with the owner that there is, where it is another than was
// expected: what follows is judged from there.
func (r *record) really(i int, v view) view {
	if r.asIs(i, v) {
		return v
	}
	for place := range r.nodes {
		if v.present[place] && slices.Contains(r.held.Now(r.site.rows()[i].vip()), directorName(place)) {
			v.owner = place
			return v
		}
	}
	return v
}

// settled waits at most limit until all rows are as they should be.
func (r *record) settled(want []view, limit time.Duration) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		all := true
		for i := range want {
			all = all && r.asIs(i, want[i])
		}
		if all || time.Now().After(deadline) {
			return all
		}
	}
}

func (r *record) owners() string {
	var parts []string
	for _, row := range r.site.rows() {
		parts = append(parts, fmt.Sprintf("%s %s: %v", row.form, row.preemption(), r.held.Now(row.vip())))
	}
	return strings.Join(parts, ", ")
}

// onlyVRRP lets IP packets of protocol 112 through.
func onlyVRRP() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x86dd, SkipTrue: 3},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x0800, SkipTrue: 4},
		bpf.LoadAbsolute{Off: 23, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 112, SkipTrue: 3, SkipFalse: 2},
		bpf.LoadAbsolute{Off: 20, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 112, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.RetConstant{Val: 1 << 16},
	}
}
