package cases

import (
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// family is what a case has to know of an IP version.
type family struct {
	name     string
	instance string
	vrid     uint8
	vip      netip.Addr
	vips     []netip.Addr // of an instance, as adverts list them
	announce string       // nft match of GARP or neighbour advertisements
}

// families are IPv4 and IPv6: what is promised for one holds for the other.
func families() []family {
	return []family{
		{"IPv4", "VI_4", 54, lab.VIP(), []netip.Addr{lab.VIP()}, lab.AnyARP},
		{"IPv6", "VI_6", 56, lab.VIP6(), []netip.Addr{netip.MustParseAddr("fe80::100"), lab.VIP6()}, "icmpv6 type nd-neighbor-advert"},
	}
}

// eachFamily runs a test in parallel for each family.
func eachFamily(t *testing.T, test func(t *testing.T, f family)) {
	t.Parallel()
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			test(t, f)
		})
	}
}

// source is the address that a node sends adverts from.
func (f family) source(n *lab.Node) netip.Addr {
	if f.vip.Is6() {
		return n.LinkLocal()
	}
	return n.Addr()
}

// bothFamilies writes a configuration with one instance a family; everything
// but name, VRID and addresses is as in the example.
func bothFamilies(like lab.Instance) string {
	var list []lab.Instance
	for _, f := range families() {
		i := like
		i.Name, i.VRID, i.VIPs = f.instance, f.vrid, f.vips
		list = append(list, i)
	}
	return lab.VipdConf("", list...)
}

// pair is the site of most cases: d1 is MASTER of both families, d2 BACKUP, and
// the client has just spoken to both addresses.
type pair struct {
	*lab.Lab
	t          *testing.T
	d1, d2, cl *lab.Node
	v1, v2     *lab.Daemon
	seen       *lab.Capture // by the client
}

// newPair starts the pair with the two configurations of bothFamilies.
func newPair(t *testing.T, conf1, conf2 string, more ...string) *pair {
	t.Helper()
	l := lab.New(t, append([]string{"d1", "d2", "cl"}, more...)...)
	p := &pair{Lab: l, t: t, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl")}
	p.seen = p.cl.Capture()
	p.v1 = p.d1.Vipd(conf1)
	for _, f := range families() {
		l.WaitOwner(f.vip, 15*time.Second, "d1")
	}
	p.v2 = p.d2.Vipd(conf2)
	for _, f := range families() {
		p.v2.WaitState(f.instance, "BACKUP", 10*time.Second)
		p.seen.WaitAdvert(5*time.Second, f.vrid, f.source(p.d1), time.Now()) // d2 hears it too
		p.greet(f)
	}
	return p
}

// greet makes the client learn who has the address: it must be d1.
func (p *pair) greet(f family) {
	p.t.Helper()
	p.cl.Exec("ping", "-c", "1", "-W", "3", f.vip.String())
	if got := p.cl.Neigh(f.vip); got != p.d1.MAC() {
		p.t.Fatalf("%s: before the fault the client has %v at %q, want d1's %s", f.name, f.vip, got, p.d1.MAC())
	}
}

// waitNeigh waits until the client's neighbour entry has the node's MAC.
func (p *pair) waitNeigh(f family, n *lab.Node, until time.Time) {
	p.t.Helper()
	for {
		asked := time.Now()
		got := p.cl.Neigh(f.vip)
		if got == n.MAC() {
			return
		}
		if asked.After(until) {
			p.t.Fatalf("%s: the client has %v at %q, want %s of %s by now", f.name, f.vip, got, n.MAC(), n.Name)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// keepsNeigh fails when the client's entry is not the node's at any time within d.
func (p *pair) keepsNeigh(f family, n *lab.Node, d time.Duration) {
	p.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got := p.cl.Neigh(f.vip); got != n.MAC() {
			p.t.Fatalf("%s: the client has %v at %q, want it to stay %s of %s", f.name, f.vip, got, n.MAC(), n.Name)
		}
	}
}

// waitAnnounced waits for an announcement of the family's address by the node,
// seen on the front LAN at or after a time.
func waitAnnounced(c *lab.Capture, f family, n *lab.Node, after time.Time, limit time.Duration) lab.Announcement {
	return waitAnnouncedBy(c, f.vip, n.MAC(), after, limit)
}

// waitAnnouncedBy waits for an announcement of an address with a MAC.
func waitAnnouncedBy(c *lab.Capture, vip netip.Addr, mac string, after time.Time, limit time.Duration) lab.Announcement {
	var found lab.Announcement
	c.WaitFrame(limit, "announcement of "+vip.String()+" by "+mac, func(fr lab.Frame) bool {
		a, ok := announcement(fr)
		found = a
		return ok && !fr.At.Before(after) && a.Address == vip && a.MAC == mac
	})
	return found
}

// announcement decodes a gratuitous ARP frame or an unsolicited neighbour
// advertisement.
func announcement(f lab.Frame) (lab.Announcement, bool) {
	p, ok := f.Parse()
	if !ok {
		return lab.Announcement{}, false
	}
	if a, ok := p.ARP(); ok && a.Gratuitous() {
		return lab.Announcement{Frame: f, Address: a.Sender, MAC: a.SenderMAC}, true
	}
	if a, ok := p.NA(); ok && !a.Solicited {
		return lab.Announcement{Frame: f, Address: a.Target, MAC: a.MAC}, true
	}
	return lab.Announcement{}, false
}
