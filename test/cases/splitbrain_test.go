package cases

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// split is a way in which both directors become masters.
type split struct {
	name  string
	extra []string                   // settings of d1
	begin func(p *pair) (end func()) // starts the fault, and returns what ends it
	// contested: d1 claims the addresses again and again while the fault lasts.
	contested bool
	// grace is allowed on top of the second after the first advert that gets through.
	grace time.Duration
}

func splits() []split {
	adverts := []string{lab.VRRP4, lab.VRRP6}
	return []split{
		{name: "d1 is frozen", begin: func(p *pair) func() { p.v1.Freeze(); return func() { p.v1.Thaw() } }},
		{name: "d2 is deaf", contested: true, begin: func(p *pair) func() {
			return p.Cut([]lab.Path{{From: p.d1, To: p.d2}}, adverts...).End
		}},
		{name: "both are deaf", begin: func(p *pair) func() {
			return p.Cut(lab.Both(p.d1, p.d2), adverts...).End
		}},
		// Nothing tells d1 that it was replaced, not even d2's last advert: the refresh heals it.
		{name: "d1 stays deaf", contested: true, extra: []string{"garp_master_refresh 1"}, grace: time.Second, begin: func(p *pair) func() {
			p.Cut([]lab.Path{{From: p.d2, To: p.d1}}, adverts...)
			return p.Cut([]lab.Path{{From: p.d1, To: p.d2}}, adverts...).End
		}},
	}
}

// O01: after a short split brain the neighbours keep the MAC of the director that
// stepped down, as the one that stayed MASTER had no reason to announce itself.
//
// Claim: within 1 s of the first advert that gets through, the client has d1's
// MAC again, with no restart and no change of d1's state.
func TestO01SplitBrainEndsWithAnnouncement(t *testing.T) {
	t.Parallel()
	for _, s := range splits() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			// A refresh that comes by chance must not pass for the announcement.
			extra := append([]string{"garp_master_delay 0", "garp_lower_prio_delay 0"}, s.extra...)
			if len(s.extra) == 0 {
				extra = append(extra, "garp_master_refresh 0")
			}
			p := newPair(t, bothFamilies(lab.Instance{Priority: 200, Extra: extra}),
				bothFamilies(lab.Instance{Priority: 100, Extra: []string{"garp_master_refresh 0"}}))
			began := time.Now()
			end := s.begin(p)
			for _, f := range families() {
				p.WaitOwner(f.vip, 8*time.Second, "d1", "d2")
				waitAnnounced(p.seen, f, p.d2, began, 3*time.Second)
			}
			time.Sleep(time.Until(began.Add(5 * time.Second)))
			if !s.contested {
				for _, f := range families() {
					p.waitNeigh(f, p.d2, time.Now().Add(time.Second))
				}
			}
			// Right after an advert of d2, which is 0.6 s behind d1: d1's is the first that
			// gets through, so that d2 steps down before d1 has heard of it.
			for _, f := range families() {
				p.seen.WaitAdvert(2*time.Second, f.vrid, f.source(p.d2), time.Now())
			}
			end()
			healed := time.Now()
			for _, f := range families() {
				heard := p.seen.WaitAdvert(3*time.Second, f.vrid, f.source(p.d1), healed)
				p.waitNeigh(f, p.d1, heard.At.Add(time.Second+s.grace))
				p.WaitOwner(f.vip, time.Second, "d1")
				p.keepsNeigh(f, p.d1, time.Second)
				staysMaster(t, p, f, began)
			}
		})
	}
}

// staysMaster checks on the wire that d1 never gave up.
func staysMaster(t *testing.T, p *pair, f family, since time.Time) {
	t.Helper()
	mine := lab.Between(lab.From(p.seen.Adverts(f.vrid), f.source(p.d1)), since, time.Now())
	if slices.ContainsFunc(mine, func(a lab.Advert) bool { return a.Priority != 200 }) {
		t.Errorf("%s: d1 gave up: %v", f.name, mine)
	}
}

// O02: a MASTER that hears a losing advert announces itself at once and never
// again; on a busy LAN that one burst is lost.
//
// Claim: the delayed second burst (garp_lower_prio_delay) repairs the client
// without a change of state. Without it the client stays wrong, which proves that
// the first burst was lost and nothing else repairs.
func TestO02SecondBurstAfterLosingAdvert(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{true, false} {
		name, delay := "with the second burst", "garp_lower_prio_delay 2"
		if !second {
			name, delay = "without", "garp_lower_prio_delay 0"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quiet := []string{"garp_master_refresh 0", "garp_master_delay 0"}
			p := newPair(t, bothFamilies(lab.Instance{Priority: 200, Extra: append(quiet, delay)}),
				bothFamilies(lab.Instance{Priority: 100, Extra: quiet}))
			sent := p.d1.Capture()
			began := time.Now()
			deaf := p.Cut(lab.Both(p.d1, p.d2), lab.VRRP4, lab.VRRP6)
			for _, f := range families() {
				p.WaitOwner(f.vip, 8*time.Second, "d1", "d2")
				p.waitNeigh(f, p.d2, time.Now().Add(2*time.Second))
			}
			var announcements []string
			for _, f := range families() {
				announcements = append(announcements, f.announce)
			}
			busy := p.Cut([]lab.Path{{From: p.d1, To: p.cl}}, announcements...)
			healed := time.Now()
			deaf.End()
			var first time.Time
			for _, f := range families() {
				first = waitAnnounced(sent, f, p.d1, healed, 3*time.Second).At
			}
			time.Sleep(time.Until(first.Add(500 * time.Millisecond)))
			for _, f := range families() {
				if got := p.cl.Neigh(f.vip); got != p.d2.MAC() {
					t.Fatalf("%s: the first burst was not lost: the client has %q", f.name, got)
				}
			}
			busy.End()
			for _, f := range families() {
				if second {
					p.waitNeigh(f, p.d1, first.Add(3500*time.Millisecond))
				} else {
					p.keepsNeigh(f, p.d2, 2*time.Second)
				}
				p.WaitOwner(f.vip, time.Second, "d1")
				staysMaster(t, p, f, began)
			}
		})
	}
}

// Two directors were cloned with one base address: both are masters, and neither
// acts on the other's adverts, which look like its own.
//
// Claim: both say so, in the log, a counter, a note and an alarm. A healthy pair,
// whose master has an interface more on the LAN, never does.
func TestDuplicateBaseAddress(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "d3")
	conf := func(prio int) string {
		return lab.VipdConf("", lab.Instance{Priority: prio, Interval: quick, VIPs: []netip.Addr{lab.VIP()}})
	}
	d1, d2, d3 := l.Node("d1"), l.Node("d2"), l.Node("d3")
	l.Switch().IP("link set d1-1 master br0") // both interfaces of d1 on one LAN
	healthy := d1.Vipd(conf(200))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	other := d3.Vipd(conf(50))
	other.WaitState("VI_1", "BACKUP", 5*time.Second)
	time.Sleep(5 * quick)
	for _, v := range []*lab.Daemon{healthy, other} {
		if n := v.Status().Instance("VI_1").Counters["adverts_dropped_duplicate_source"]; n != 0 {
			t.Errorf("%s of a healthy pair counts %d adverts of a twin", v.Node.Name, n)
		}
	}
	other.Stop(5 * time.Second)
	d2.IP("addr flush dev eth0")
	d2.IP("addr add " + d1.Addr().String() + "/24 dev eth0")
	twins := []*lab.Daemon{healthy, d2.Vipd(conf(100))}
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1", "d2") // the fault
	healthy.Stop(5 * time.Second)
	healthy.Again() // a new master listens at once, an old one every 30 s
	for _, v := range twins {
		v.WaitLog("WARN the machine with the MAC address .* sends adverts from our own address "+d1.Addr().String(), 40*time.Second)
		if n := v.Status().Instance("VI_1").Counters["adverts_dropped_duplicate_source"]; n == 0 {
			t.Errorf("%s counts no advert of its twin", v.Node.Name)
		}
		text, err := v.Ctl("status")
		if err != nil || !strings.Contains(text, "ALARM: VI_1: another machine on eth0 sends adverts from our address "+d1.Addr().String()) ||
			!strings.Contains(text, "sends adverts from our own address") {
			t.Errorf("the status of %s (%v):\n%s", v.Node.Name, err, text)
		}
	}
}
