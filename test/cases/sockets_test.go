package cases

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// quick is an interval that keeps cases short and still leaves room for noise.
const quick = 200 * time.Millisecond

// downTimer is how long a version 3 backup waits after the last advert (RFC 9568 §6.1).
func downTimer(interval time.Duration, priority int) time.Duration {
	return 3*interval + interval*time.Duration(256-priority)/256
}

// steady checks that a node alone has sent the adverts of a virtual router since
// from: always with its priority and without a gap.
func steady(t *testing.T, c *lab.Capture, vrid uint8, src netip.Addr, priority uint8, interval time.Duration, from time.Time) {
	t.Helper()
	to := time.Now()
	list := lab.Between(c.Adverts(vrid), from, to)
	mine := lab.From(list, src)
	for _, a := range mine {
		if a.Priority != priority {
			t.Errorf("an advert with priority %d: %v", a.Priority, a)
		}
	}
	// A busy machine may delay one advert; the next one is due at its own time. A
	// node that gave up and came back is away for a down timer at least.
	slack := interval/2 + 250*time.Millisecond
	if gap, at := lab.LongestGap(mine); gap > interval+slack+c.Stalled(at, at.Add(gap)) {
		t.Errorf("VRID %d: no advert of %v for %v at %s; one every %v is due", vrid, src, gap, at.Format("05.000"), interval)
	}
	want, stalled := int(to.Sub(from)/interval), c.Stalled(from, to)
	if stalled > 0 {
		t.Logf("the machine stood still for %v", stalled)
	}
	if n := len(mine); n < want-2-int(stalled/interval) || n > want+2 {
		t.Errorf("VRID %d: %d adverts of %v in %v, want %d", vrid, n, src, to.Sub(from), want)
	}
}

// silent checks that an address has sent no advert of the virtual router since from.
func silent(t *testing.T, c *lab.Capture, vrid uint8, src netip.Addr, from time.Time) {
	t.Helper()
	for _, a := range lab.Between(lab.From(c.Adverts(vrid), src), from, time.Now()) {
		t.Errorf("an advert that should not be: %v", a)
	}
}

// onlyOwner checks that at every sample nobody but the named director had the VIP.
func onlyOwner(t *testing.T, o *lab.OwnerLog, name string) {
	t.Helper()
	for _, p := range o.Stop() {
		if !slices.Equal(p.Owners, []string{name}) {
			t.Errorf("from %s to %s the VIP was on %v, want %s alone", p.From.Format("05.000"), p.To.Format("05.000"), p.Owners, name)
		}
	}
	if err := o.Err(); err != nil {
		t.Error(err)
	}
}

// stranger is an address of another cluster's speaker and what it advertises.
func stranger(f family, n *lab.Node) lab.Speech {
	s := lab.Speech{Src: f.source(n), VRID: f.vrid, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.200")}}
	if f.vip.Is6() {
		s.Addrs = []netip.Addr{netip.MustParseAddr("fe80::200"), netip.MustParseAddr("2001:db8:9::200")}
	}
	return s
}

// O14: another cluster on the LAN uses our VRID for other addresses. The log is
// flooded, and sometimes the stranger's adverts cause a fail-over.
//
// Claim: they change nothing: not for the MASTER, whatever their priority, and
// not for the BACKUP, which takes over on time although they go on. There is one
// log line a source and minute, a counter, and a note in status. A sender that
// shares an address with us is no stranger, and is obeyed.
func TestO14ForeignSpeakerOnOurVRID(t *testing.T) {
	t.Parallel()
	conf := func(prio int) string { return bothFamilies(lab.Instance{Priority: prio, Interval: quick}) }
	p := newPair(t, conf(200), conf(100))
	x := p.AddHost("x", 50)
	var frames, ours [][]byte
	for _, prio := range []uint8{50, 250, 0} {
		for _, f := range families() {
			s := stranger(f, x)
			s.Priority, s.Interval = prio, quick
			frames = append(frames, x.Frame(s))
		}
	}
	for _, f := range families() {
		s := stranger(f, x)
		s.Priority, s.Interval, s.Addrs = 250, quick, f.vips
		ours = append(ours, x.Frame(s))
	}
	var owners []*lab.OwnerLog
	for _, f := range families() {
		owners = append(owners, p.WatchOwners(f.vip, 5*time.Millisecond))
	}
	from := time.Now()
	flood := x.Flood(60, frames...)
	time.Sleep(4 * time.Second)
	for i, f := range families() {
		steady(t, p.seen, f.vrid, f.source(p.d1), 200, quick, from)
		silent(t, p.seen, f.vrid, f.source(p.d2), from)
		onlyOwner(t, owners[i], "d1")
		for _, v := range []*lab.Daemon{p.v1, p.v2} {
			tellsOfConflict(t, v, f, f.source(x).String())
		}
	}

	// The stranger must not keep the backup from its duty.
	cut := p.v1.Kill()
	for _, f := range families() {
		first := p.seen.WaitAdvert(5*time.Second, f.vrid, f.source(p.d2), cut)
		last, _ := lab.LastBefore(lab.From(p.seen.Adverts(f.vrid), f.source(p.d1)), first.At)
		if took, want := first.At.Sub(last.At), downTimer(quick, 100); took < want-5*time.Millisecond || took > want+300*time.Millisecond {
			t.Errorf("%s: d2 took over %v after the last advert, want %v", f.name, took, want)
		}
	}
	flood.Stop()

	// The twin: with an address in common, the better priority wins.
	flood = x.Flood(20, ours...)
	for _, f := range families() {
		p.Eventually(3*time.Second, f.name+": d2 yields to a better master of the same address", func() bool { return !p.d2.Has(f.vip) })
	}
	from = time.Now().Add(quick)
	time.Sleep(4 * quick)
	for _, f := range families() {
		silent(t, p.seen, f.vrid, f.source(p.d2), from)
	}
	flood.Stop()
}

// tellsOfConflict checks what the operator gets to know.
func tellsOfConflict(t *testing.T, v *lab.Daemon, f family, src string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(v.Log()) {
		if strings.Contains(line, src) && strings.Contains(line, f.instance) {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 {
		t.Errorf("%s: %d log lines about %s, want one a minute:\n%s", v.Name, len(lines), src, strings.Join(lines, ""))
	}
	out, err := v.Ctl("status", "--json")
	if err != nil {
		t.Errorf("%s: status: %v", v.Name, err)
		return
	}
	var st struct {
		Instances []struct {
			Name     string           `json:"name"`
			Notes    []string         `json:"notes"`
			Counters map[string]int64 `json:"counters"`
		} `json:"vrrp_instances"`
	}
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		t.Fatalf("%s: status: %v", v.Name, err)
	}
	for _, i := range st.Instances {
		if i.Name != f.instance {
			continue
		}
		if notes := strings.Join(i.Notes, "\n"); !strings.Contains(notes, "VRID conflict with "+src) {
			t.Errorf("%s: %s: status does not say \"VRID conflict with %s\" but %q", v.Name, i.Name, src, notes)
		}
		var foreign int64
		for name, n := range i.Counters {
			if strings.Contains(name, "foreign") {
				foreign = n
			}
		}
		if foreign < 50 {
			t.Errorf("%s: %s: %d foreign adverts counted of some 120: %v", v.Name, i.Name, foreign, i.Counters)
		}
	}
}

// O14 with version 2: the other cluster has a password of its own, or none.
func TestO14ForeignPassword(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, vip := l.Node("d1"), l.Node("d2"), lab.VIP()
	x := l.AddHost("x", 50)
	conf := func(prio int) string {
		return lab.VipdConf("", lab.Instance{Version: 2, Priority: prio, VIPs: []netip.Addr{vip}, AuthPass: "secret"})
	}
	seen := l.Node("cl").Capture()
	v1 := d1.Vipd(conf(200))
	l.WaitOwner(vip, 10*time.Second, "d1")
	d2.Vipd(conf(100)).WaitState("VI_1", "BACKUP", 10*time.Second)

	speech := lab.Speech{Version: 2, Src: x.Addr(), VRID: 51, Priority: 250, Addrs: []netip.Addr{netip.MustParseAddr("10.9.0.200")}, AuthPass: "other"}
	wrong, none := speech, speech
	wrong.Addrs, none.AuthPass = []netip.Addr{vip}, ""
	owners := l.WatchOwners(vip, 5*time.Millisecond)
	from := time.Now()
	flood := x.Flood(30, x.Frame(speech), x.Frame(wrong), x.Frame(none))
	time.Sleep(5 * time.Second)
	flood.Stop()
	steady(t, seen, 51, d1.Addr(), 200, time.Second, from)
	silent(t, seen, 51, d2.Addr(), from)
	onlyOwner(t, owners, "d1")
	// One line a minute for each thing that is wrong: the password, and that there is none.
	if n := strings.Count(v1.Log(), "10.9.0.50"); n < 1 || n > 2 {
		t.Errorf("%d log lines about 10.9.0.50 in five seconds", n)
	}

	// The twin: the right password, and an address in common.
	right := speech
	right.AuthPass, right.Addrs = "secret", []netip.Addr{vip}
	flood = x.Flood(10, x.Frame(right))
	l.Eventually(3*time.Second, "d1 yields to the better master that has the password", func() bool { return !d1.Has(vip) })
	flood.Stop()
}

// O15: raw sockets get every packet of protocol 112. Two groups with one VRID on
// two interfaces whose LANs are joined hear themselves and each other; stopping
// one sends a priority 0 that the other obeys.
//
// Claim: packets belong to the interface they came in on, own ones are ignored,
// and stopping group A leaves group B untouched.
func TestO15OwnAdvertsOnAnotherInterface(t *testing.T) {
	t.Parallel()
	// Alone, and without the address list to tell the groups apart: only the
	// source says whose adverts come back.
	for _, c := range []struct {
		name  string
		peer  bool
		extra []string
	}{{"with a peer", true, nil}, {"alone, any address list", false, []string{"skip_check_adv_addr true"}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			joinedLANs(t, c.peer, c.extra)
		})
	}
}

// group is one virtual router of the O15 site.
type group struct {
	lab.Instance
	f   family
	lan int
}

// groups are A on eth0 and B on eth1, both with one VRID a family.
func groups(prioA, prioB int, extra []string) []group {
	second := []netip.Addr{netip.MustParseAddr("10.8.0.100")}
	second6 := []netip.Addr{netip.MustParseAddr("fe80::8:100"), netip.MustParseAddr("2001:db8:8::100")}
	var list []group
	for _, f := range families() {
		a := lab.Instance{Name: "A" + f.instance, Interface: "eth0", VRID: f.vrid, Priority: prioA, Interval: quick, VIPs: f.vips, Extra: extra}
		b := a
		b.Name, b.Interface, b.Priority, b.VIPs = "B"+f.instance, "eth1", prioB, second
		if f.vip.Is6() {
			b.VIPs = second6
		}
		list = append(list, group{a, f, 0}, group{b, f, 1})
	}
	return list
}

// vip is the address that is looked for.
func (g group) vip() netip.Addr { return g.VIPs[len(g.VIPs)-1] }

func instances(list []group, keep func(group) bool) []lab.Instance {
	var out []lab.Instance
	for _, g := range list {
		if keep(g) {
			out = append(out, g.Instance)
		}
	}
	return out
}

func joinedLANs(t *testing.T, peer bool, extra []string) {
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	l.Switch().Sh("ip link add j0 type veth peer name j1; ip link set j0 master br0 up; ip link set j1 master br1 up")
	all := func(group) bool { return true }
	ours := groups(150, 200, extra) // apart, so that one group's advert would move the other
	v1 := d1.Vipd(lab.VipdConf("", instances(ours, all)...))
	for _, g := range ours {
		l.WaitOwner(g.vip(), 10*time.Second, "d1")
	}
	if peer {
		v2 := d2.Vipd(lab.VipdConf("", instances(groups(100, 100, extra), all)...))
		for _, g := range ours {
			v2.WaitState(g.Name, "BACKUP", 10*time.Second)
		}
	}
	seen := cl.Capture()
	// The joint works: what d1 sends on eth1 comes out on the front LAN.
	for _, g := range ours {
		seen.WaitAdvert(3*time.Second, g.VRID, source(g, d1), time.Now())
	}
	owners := map[string]*lab.OwnerLog{}
	for _, g := range ours {
		owners[g.Name] = l.WatchOwners(g.vip(), 5*time.Millisecond)
	}
	from := time.Now()
	time.Sleep(2 * time.Second)
	for _, g := range ours {
		steady(t, seen, g.VRID, source(g, d1), uint8(g.Priority), quick, from)
		if g.lan == 0 {
			onlyOwner(t, owners[g.Name], "d1")
		}
	}

	onlyB := func(g group) bool { return g.lan == 1 }
	stop := v1.Reload(lab.VipdConf("", instances(ours, onlyB)...))
	for _, g := range ours {
		if g.lan == 0 {
			seen.WaitFrame(3*time.Second, "priority 0 of "+g.Name, func(f lab.Frame) bool {
				p, ok := f.Parse()
				a, isAdvert := p.Advert()
				return ok && isAdvert && a.VRID == g.VRID && a.Priority == 0 && a.Src == source(g, d1) && !f.At.Before(stop)
			})
			if peer {
				l.WaitOwner(g.vip(), 5*time.Second, "d2")
			}
		}
	}
	time.Sleep(2 * time.Second)
	for _, g := range ours {
		if g.lan == 1 {
			steady(t, seen, g.VRID, source(g, d1), uint8(g.Priority), quick, from)
			silent(t, seen, g.VRID, source(g, d2), from)
			onlyOwner(t, owners[g.Name], "d1")
		}
	}
}

// source is where a node's adverts of the group come from.
func source(g group, n *lab.Node) netip.Addr {
	if !g.vip().Is6() {
		return n.AddrOn(g.lan)
	}
	return n.LinkLocalOn(g.lan)
}
