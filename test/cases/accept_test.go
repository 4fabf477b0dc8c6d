package cases

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// refuser is a director with no_accept, a client and a host behind the director
// that the client reaches through the virtual address.
type refuser struct {
	*lab.Lab
	t       *testing.T
	d1, cl  *lab.Node
	extra   map[string]netip.Addr // virtual_ipaddress_excluded, by family
	behind  map[string]netip.Addr // addresses of the host behind d1
	service uint16                // d1 serves it on all its addresses
}

func newRefuser(t *testing.T) *refuser {
	t.Helper()
	l := lab.New(t, "d1", "cl", "r1")
	r := &refuser{
		Lab: l, t: t, d1: l.Node("d1"), cl: l.Node("cl"), service: 8080,
		extra:  map[string]netip.Addr{"IPv4": netip.MustParseAddr("10.9.0.111"), "IPv6": netip.MustParseAddr("2001:db8:9::111")},
		behind: map[string]netip.Addr{"IPv4": netip.MustParseAddr("10.77.0.1"), "IPv6": netip.MustParseAddr("2001:db8:77::1")},
	}
	r1 := l.Node("r1")
	r.d1.Sysctl("net/ipv4/ip_forward", "1")
	r.d1.Sysctl("net/ipv6/conf/all/forwarding", "1")
	r.cl.Sysctl("net/ipv4/conf/all/accept_redirects", "0")
	r.cl.Sysctl("net/ipv4/conf/eth0/accept_redirects", "0")
	r.cl.Sysctl("net/ipv6/conf/eth0/accept_redirects", "0")
	for _, f := range families() {
		a := r.behind[f.name]
		r1.IP(fmt.Sprintf("addr add %v dev lo", netip.PrefixFrom(a, a.BitLen())))
		r.d1.IP(fmt.Sprintf("route add %v via %v", a, map[bool]netip.Addr{false: r1.Addr(), true: r1.Addr6()}[a.Is6()]))
		r.cl.IP(fmt.Sprintf("route add %v via %v", a, f.vip))
	}
	r.d1.Serve(r.service, "d1")
	return r
}

// instances writes one instance a family.
func (r *refuser) instances(priority int, extra ...string) []lab.Instance {
	var list []lab.Instance
	for _, f := range families() {
		list = append(list, lab.Instance{Name: f.instance, VRID: f.vrid, VIPs: f.vips, Excluded: []netip.Addr{r.extra[f.name]},
			Priority: priority, Interval: quick, Extra: extra})
	}
	return list
}

func (r *refuser) pings(n *lab.Node, to netip.Addr) bool {
	target := to.String()
	if to.IsLinkLocalUnicast() {
		target += "%eth0"
	}
	_, err := n.Try("ping", "-c", "1", "-W", "1", target)
	return err == nil
}

// answers reports whether a node serves on the address.
func (r *refuser) answers(a netip.Addr) bool {
	c := r.cl.Open(netip.AddrPortFrom(a, r.service), 1, 1, 500*time.Millisecond)
	defer func() {
		for _, x := range c {
			x.Close()
		}
	}()
	return len(c) == 1 && c[0].Err == nil
}

// routes shows that the director does for others what it should, whether it
// accepts packets itself or not: who asks learns its MAC, and packets go through.
func (r *refuser) routes() {
	r.t.Helper()
	r.cl.IP("neigh flush dev eth0")
	for _, f := range families() {
		if !r.pings(r.cl, r.behind[f.name]) {
			r.t.Errorf("%s: nothing is routed by way of %v", f.name, f.vip)
		}
		if got := r.cl.Neigh(f.vip); got != r.d1.MAC() {
			r.t.Errorf("%s: the client has %v at %q, want %s", f.name, f.vip, got, r.d1.MAC())
		}
	}
}

// accepts compares what the virtual addresses answer with what is wanted.
func (r *refuser) accepts(want bool) {
	r.t.Helper()
	for _, f := range families() {
		for _, a := range append([]netip.Addr{r.extra[f.name]}, f.vips...) {
			if got := r.pings(r.cl, a); got != want {
				r.t.Errorf("%s: a ping of %v is answered: %v, want %v", f.name, a, got, want)
			}
		}
		if got := r.answers(f.vip); got != want {
			r.t.Errorf("%s: %v accepts connections: %v, want %v", f.name, f.vip, got, want)
		}
		if got := r.pings(r.d1, f.vip); got != want {
			r.t.Errorf("%s: the director's own ping of %v is answered: %v, want %v", f.name, f.vip, got, want)
		}
	}
	if own := r.d1.Addr(); !r.pings(r.cl, own) || !r.answers(own) {
		r.t.Error("the director's own address does not answer")
	}
}

// TestNoAccept: with no_accept the virtual addresses can be used for routing only
// (RFC 9568 §6.1, Accept_Mode False). keepalived and vipd agree on every point.
func TestNoAccept(t *testing.T) {
	t.Parallel()
	for _, peer := range []string{"keepalived", "vipd"} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			for _, extra := range []string{"no_accept", "accept"} {
				t.Run(extra, func(t *testing.T) {
					r := newRefuser(t)
					var p *lab.Process
					if peer == "vipd" {
						p = r.d1.Vipd(lab.VipdConf("", r.instances(200, extra)...)).Process
					} else {
						p = r.d1.Keepalived(lab.KeepalivedConf("", r.instances(200, extra)...))
					}
					for _, f := range families() {
						r.WaitOwner(f.vip, 10*time.Second, "d1")
						r.WaitOwner(r.extra[f.name], time.Second, "d1")
					}
					r.routes()
					r.accepts(extra == "accept")
					p.Stop(8 * time.Second)
					if rules := r.d1.Exec("nft", "list", "ruleset"); rules != "" {
						t.Errorf("after the stop there are rules:\n%s", rules)
					}
				})
			}
		})
	}
}

// TestNoAcceptNever: not for a moment, from the start over a failover and the way
// back to the stop, is a packet to the address accepted, nor when others flush the
// ruleset while it is here; and a reload turns it off and on where it is.
func TestNoAcceptNever(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	conf := func(priority int, word string) string {
		return bothFamilies(lab.Instance{Priority: priority, Interval: quick, Extra: []string{word}})
	}
	var targets []netip.Addr
	for _, f := range families() {
		targets = append(targets, f.vip)
	}
	pinger := cl.Ping(2*time.Millisecond, targets...)
	owned := func(by string) {
		for _, f := range families() {
			l.WaitOwner(f.vip, 10*time.Second, by)
		}
		time.Sleep(200 * time.Millisecond)
	}
	v1 := d1.Vipd(conf(200, "no_accept"))
	owned("d1")
	v2 := d2.Vipd(conf(100, "no_accept"))
	v2.WaitState("VI_4", "BACKUP", 5*time.Second)
	v1.Kill() // the addresses stay, and must not be accepted
	owned2 := time.Now()
	for _, f := range families() {
		l.WaitOwner(f.vip, 10*time.Second, "d1", "d2")
	}
	v1.Again()
	owned("d1")
	v1.Stop(5 * time.Second)
	owned("d2")
	v1.Again()
	owned("d1")
	if got := lab.Answered(pinger.Probes()); len(got) > 0 {
		t.Errorf("%d pings were answered, the first %v after the start of the failover", len(got), got[0].Got.Sub(owned2))
	}
	for _, hand := range []string{"flush ruleset", "delete table ip vipd; delete table ip6 vipd"} {
		at := time.Now()
		d1.Nft(hand)
		time.Sleep(500 * time.Millisecond)
		got := lab.Between(lab.Answered(pinger.Probes()), at, time.Now())
		if n := len(got); n > 0 && got[n-1].Got.Sub(at) > 200*time.Millisecond {
			t.Errorf("after %q a ping was still answered %v later", hand, got[n-1].Got.Sub(at))
		}
	}
	since := v1.Status().Instance("VI_4").Since
	for _, word := range []string{"accept", "no_accept"} {
		v1.Reload(conf(200, word))
		v1.WaitLog("reloaded.*no_accept", 5*time.Second)
		time.Sleep(300 * time.Millisecond)
		at := time.Now()
		time.Sleep(300 * time.Millisecond)
		got := lab.Between(lab.Answered(pinger.Probes()), at, time.Now())
		if (len(got) > 0) != (word == "accept") {
			t.Errorf("after the reload to %s %d pings were answered", word, len(got))
		}
	}
	if now := v1.Status().Instance("VI_4").Since; now != since {
		t.Errorf("the reloads changed the state: %v, before %v", now, since)
	}
	if text, err := v1.Ctl("status"); err != nil || !strings.Contains(text, "yes, no_accept: packets to it are dropped") {
		t.Errorf("status says nothing of no_accept (%v):\n%s", err, text)
	}
}

// TestNoAcceptImpossible: an instance that could not refuse packets is in FAULT, says
// why, and works as soon as it can. One without no_accept never minds.
func TestNoAcceptImpossible(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	d1.Nft("add table ip vipd")
	other := netip.MustParseAddr("10.9.0.120")
	conf := func(table string) string {
		return lab.VipdConf(fmt.Sprintf("[global_defs]\nnftables = %q", table),
			lab.Instance{VIPs: []netip.Addr{lab.VIP()}, Priority: 200, Interval: quick, Extra: []string{"no_accept"}},
			lab.Instance{Name: "VI_2", VRID: 52, VIPs: []netip.Addr{other}, Priority: 200, Interval: quick})
	}
	v := d1.Vipd(conf("vipd"))
	l.WaitOwner(other, 10*time.Second, "d1")
	v.WaitLog("FAULT.*no_accept is not possible: table ip vipd is not of this vipd", 5*time.Second)
	l.Never(time.Second, "the address is here", func() bool { return d1.Has(lab.VIP()) })
	v.Reload(conf("vipd-1"))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	if got := d1.Exec("nft", "list", "tables"); got != "table ip vipd\ntable ip vipd-1\n" {
		t.Errorf("tables: %q", got)
	}

	// A second vipd with the same name in the same namespace.
	second := lab.VipdConf("[global_defs]\nnftables = \"vipd-1\"",
		lab.Instance{Name: "VI_3", VRID: 53, VIPs: []netip.Addr{netip.MustParseAddr("10.9.0.130")}, Interval: quick, Extra: []string{"no_accept"}})
	w := d1.VipdNamed("second", "", second)
	w.WaitLog("FAULT.*belongs to the vipd with the state directory "+v.StateDir, 5*time.Second)

	// The leftovers of a crash go at the next start, though the name is another one.
	v.Kill()
	if err := os.WriteFile(v.ConfigFile, []byte(strings.Replace(conf("vipd-3"), "no_accept = true\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	v.Again()
	v.WaitLog("nftables rules were here before: removed.*vipd-1", 5*time.Second)
	l.WaitOwner(netip.MustParseAddr("10.9.0.130"), 10*time.Second, "d1") // and the second has its way
	v.Stop(5 * time.Second)
	w.Signal(syscall.SIGTERM)
	w.Wait(5 * time.Second)
	if got := d1.Exec("nft", "list", "tables"); got != "table ip vipd\n" {
		t.Errorf("in the end: %q", got)
	}
}
