// Package recreate is one scenario for interfaces of every kind: the interface
// that VRRP runs on is deleted and made again, with a new index. It is shared by
// the tests on the host's kernel and those in the user-mode kernel, which has
// VLAN and bonding.
package recreate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// Kind is a kind of interface.
type Kind struct {
	Name  string // of the interface, the same on every node
	Make  func(n *lab.Node)
	Del   func(n *lab.Node)
	Noise time.Duration // how late things may be on the kernel it runs on
}

// A family of addresses of the interface under test, in networks of its own.
type family struct {
	name     string
	instance string
	vrid     uint8
	vip      netip.Addr
	vips     []netip.Addr
	group    netip.Addr
}

func families() []family {
	vip, vip6 := netip.MustParseAddr("10.7.0.100"), netip.MustParseAddr("2001:db8:7::100")
	return []family{
		{"IPv4", "VI_4", 74, vip, []netip.Addr{vip}, netip.MustParseAddr("224.0.0.18")},
		{"IPv6", "VI_6", 76, vip6, []netip.Addr{netip.MustParseAddr("fe80::7:100"), vip6}, netip.MustParseAddr("ff02::12")},
	}
}

const (
	interval   = 300 * time.Millisecond
	high, low  = 200, 100 // priorities of d1 and d2; they tell whose advert it is
	upDeadline = 10 * time.Second
)

// downTimer is how long a backup waits after the last advert (RFC 9568 §6.1).
func downTimer(priority int) time.Duration {
	return 3*interval + interval*time.Duration(256-priority)/256
}

// site is a pair of directors and a client on the kind of interface.
type site struct {
	*lab.Lab
	t          *testing.T
	k          Kind
	d1, d2, cl *lab.Node
	v1, v2     *lab.Daemon
	seen       *lab.Capture
}

// newSite makes the site; the interface exists on the named nodes only.
func newSite(t *testing.T, k Kind, on ...string) *site {
	l := lab.New(t, "d1", "d2", "cl")
	s := &site{Lab: l, t: t, k: k, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl")}
	for _, n := range l.Nodes(on...) {
		s.make(n)
	}
	s.seen = s.cl.CaptureOn(k.Name)
	return s
}

// make makes the interface of a node and addresses it as the machine's own
// network configuration would.
func (s *site) make(n *lab.Node) time.Time {
	s.t.Helper()
	at := time.Now()
	s.k.Make(n)
	octet := n.Addr().As4()[3]
	n.Sh(fmt.Sprintf("ip link set %[1]s up; ip addr add 10.7.0.%[2]d/24 dev %[1]s; ip addr add 2001:db8:7::%[2]d/64 dev %[1]s nodad", s.k.Name, octet))
	return at
}

func (s *site) del(n *lab.Node) time.Time {
	s.t.Helper()
	at := time.Now()
	s.k.Del(n)
	return at
}

func (s *site) conf(priority int) string {
	var list []lab.Instance
	for _, f := range families() {
		list = append(list, lab.Instance{Name: f.instance, Interface: s.k.Name, VRID: f.vrid, Priority: priority, Interval: interval, VIPs: f.vips})
	}
	return lab.VipdConf("", list...)
}

// start starts both directors, d1 first.
func (s *site) start() {
	s.t.Helper()
	s.v1 = s.d1.Vipd(s.conf(high))
	s.owners("d1", upDeadline)
	s.v2 = s.d2.Vipd(s.conf(low))
	for _, f := range families() {
		s.v2.WaitState(f.instance, "BACKUP", upDeadline)
	}
	time.Sleep(2 * interval) // d2 must have heard d1
}

// owners waits until a director alone has both VIPs.
func (s *site) owners(name string, limit time.Duration) {
	s.t.Helper()
	for _, f := range families() {
		s.WaitOwner(f.vip, limit, name)
	}
}

// adverts are those with a priority, of one family, in a stretch of time.
func (s *site) adverts(f family, priority uint8, from, to time.Time) []lab.Advert {
	return lab.Filter(lab.Between(s.seen.Adverts(f.vrid), from, to), func(a lab.Advert) bool { return a.Priority == priority })
}

// first waits for the first advert with a priority after a time.
func (s *site) first(f family, priority uint8, after time.Time, limit time.Duration) lab.Advert {
	s.t.Helper()
	var found lab.Advert
	s.seen.WaitFrame(limit, fmt.Sprintf("%s advert with priority %d", f.name, priority), func(fr lab.Frame) bool {
		p, ok := fr.Parse()
		if !ok || fr.At.Before(after) {
			return false
		}
		found, ok = p.Advert()
		return ok && found.VRID == f.vrid && found.Priority == priority
	})
	return found
}

// Run is the scenario with the daemons running: the MASTER's interface goes and
// returns, then the BACKUP's, then the MASTER's several times in a row.
func Run(t *testing.T, k Kind) {
	s := newSite(t, k, "d1", "d2", "cl")
	s.start()
	s.masterLoses()
	s.masterRegains()
	s.backupLosesAndRegains()
	for range 4 {
		s.del(s.d1)
		s.make(s.d1)
	}
	s.owners("d1", downTimer(high)+k.Noise)
	s.alone(4 * interval)
	s.socketsAnew(s.v1)
	s.unseen()
}

// unseen: while the daemon is stopped the interface goes and returns, so that it
// never sees it absent, only with another index. A backup that wakes up deaf, its
// time over, may take itself for the master until it hears the real one: for one
// interval at most.
func (s *site) unseen() {
	s.t.Helper()
	for _, v := range []*lab.Daemon{s.v2, s.v1} {
		v.Freeze()
		s.del(v.Node)
		s.make(v.Node)
		v.Thaw()
		time.Sleep(interval + s.k.Noise/4)
		s.owners("d1", downTimer(high)+s.k.Noise)
		s.alone(downTimer(low) + 2*interval)
		s.socketsAnew(v)
	}
}

// masterLoses: d1 gives up without an interface, d2 takes over on time.
func (s *site) masterLoses() {
	s.t.Helper()
	gone := s.del(s.d1)
	deleted := time.Now()
	for _, f := range families() {
		first := s.first(f, low, gone, downTimer(low)+s.k.Noise)
		last, ok := lab.LastBefore(s.adverts(f, high, time.Time{}, first.At), first.At)
		if took := first.At.Sub(last.At); !ok || took < downTimer(low)-10*time.Millisecond || took > downTimer(low)+s.k.Noise {
			s.t.Errorf("%s: d2 took over %v after the last advert, want %v", f.name, took, downTimer(low))
		}
	}
	s.owners("d2", s.k.Noise)
	time.Sleep(2 * interval)
	if !s.v1.Running() {
		s.t.Fatal("vipd of d1 ended with its interface")
	}
	for _, f := range families() {
		if list := s.adverts(f, high, deleted.Add(50*time.Millisecond), time.Now()); len(list) > 0 {
			s.t.Errorf("%s: d1 sent %d adverts without its interface, the first %v", f.name, len(list), list[0])
		}
		if i := s.v1.Status().Instance(f.instance); i.State != "FAULT" || !strings.Contains(i.Reason, s.k.Name) {
			s.t.Errorf("%s: without its interface d1 is %s (%s), want FAULT and the interface's name", f.name, i.State, i.Reason)
		}
	}
}

// masterRegains: one election, and things are as before.
func (s *site) masterRegains() {
	s.t.Helper()
	back := s.make(s.d1)
	made := time.Now()
	var firsts []time.Time
	for _, f := range families() {
		first := s.first(f, high, back, downTimer(high)+made.Sub(back)+s.k.Noise)
		firsts = append(firsts, first.At)
		if took := first.At.Sub(made); took > downTimer(high)+s.k.Noise {
			s.t.Errorf("%s: d1 is MASTER %v after its interface is back, want %v", f.name, took, downTimer(high))
		}
	}
	s.owners("d1", s.k.Noise)
	s.alone(4 * interval)
	for i, f := range families() {
		if list := s.adverts(f, low, firsts[i].Add(interval+s.k.Noise/2), time.Now()); len(list) > 0 {
			s.t.Errorf("%s: d2 went on for %d adverts, last %v", f.name, len(list), list[len(list)-1])
		}
	}
	s.socketsAnew(s.v1)
}

// backupLosesAndRegains: d2 must hear again, and must be able to take over.
func (s *site) backupLosesAndRegains() {
	s.t.Helper()
	gone := s.del(s.d2)
	time.Sleep(interval)
	s.make(s.d2)
	s.alone(downTimer(low) + 4*interval)
	for _, f := range families() {
		if list := s.adverts(f, low, gone, time.Now()); len(list) > 0 {
			s.t.Errorf("%s: d2 is deaf after its interface came back: %v", f.name, list[0])
		}
	}
	s.socketsAnew(s.v2)
	gone = s.del(s.d1)
	for _, f := range families() {
		s.first(f, low, gone, downTimer(low)+s.k.Noise)
	}
	s.make(s.d1)
	s.owners("d1", downTimer(high)+s.k.Noise)
}

// alone checks that d1 and nobody else has the VIPs during a time.
func (s *site) alone(d time.Duration) {
	s.t.Helper()
	var logs []*lab.OwnerLog
	for _, f := range families() {
		logs = append(logs, s.WatchOwners(f.vip, 10*time.Millisecond))
	}
	time.Sleep(d)
	for i, f := range families() {
		for _, p := range logs[i].Stop() {
			if !slices.Equal(p.Owners, []string{"d1"}) {
				s.t.Errorf("%s: from %s to %s the VIP was on %v, want d1 alone", f.name, p.From.Format("05.000"), p.To.Format("05.000"), p.Owners)
			}
		}
	}
}

// socketsAnew checks that the daemon has joined its groups on the interface that
// is there now, and that no socket of an earlier one is left.
func (s *site) socketsAnew(v *lab.Daemon) {
	s.t.Helper()
	for _, f := range families() {
		if groups := v.Node.Groups(s.k.Name); !slices.Contains(groups, f.group) {
			s.t.Errorf("%s: %s is not joined on %s: %v", v.Name, f.group, s.k.Name, groups)
		}
	}
	if n := len(v.RawQueues()); n != len(families()) {
		s.t.Errorf("%s: %d raw sockets, want %d", v.Name, n, len(families()))
	}
}

// Later is the scenario in which the daemon starts before its interface exists.
func Later(t *testing.T, k Kind) {
	s := newSite(t, k, "d2", "cl")
	s.v2 = s.d2.Vipd(s.conf(low))
	s.owners("d2", upDeadline)
	s.v1 = s.d1.Vipd(s.conf(high))
	for _, f := range families() {
		s.v1.WaitState(f.instance, "FAULT", upDeadline)
		if i := s.v1.Status().Instance(f.instance); !strings.Contains(i.Reason, k.Name) {
			t.Errorf("%s: the reason of FAULT does not name %s: %q", f.name, k.Name, i.Reason)
		}
	}
	time.Sleep(time.Second)
	s.masterRegains()
}
