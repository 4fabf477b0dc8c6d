package cases

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// O03: a refresh that is configured, and never sent or sent at the pace of the
// adverts.
//
// Claim: 4 frames a second for each VIP with a refresh of 1 s and 4 repeats,
// whatever the advert interval; and none any more once the instance is BACKUP.
func TestO03RefreshHasItsOwnClock(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, cl := l.Node("d1"), l.Node("cl")
	seen := cl.Capture()
	groups := []struct {
		name     string
		vrid     uint8
		interval time.Duration
		vips     []netip.Addr
		src      netip.Addr // of a better director
	}{
		{"VI_2s", 62, 2 * time.Second, []netip.Addr{lab.VIP()}, l.Node("d2").Addr()},
		{"VI_3s", 63, 3 * time.Second, []netip.Addr{netip.MustParseAddr("10.9.0.103")}, l.Node("d2").Addr()},
		{"VI_6", 66, 3 * time.Second, []netip.Addr{netip.MustParseAddr("fe80::100"), lab.VIP6()}, l.Node("d2").LinkLocal()},
	}
	var list []lab.Instance
	for _, g := range groups {
		list = append(list, lab.Instance{Name: g.name, VRID: g.vrid, Interval: g.interval, VIPs: g.vips, Priority: 200,
			Extra: []string{"garp_master_delay 0", "garp_master_refresh 1", "garp_master_refresh_repeat 4"}})
	}
	v1 := d1.Vipd(lab.VipdConf("", list...))
	for _, g := range groups {
		v1.WaitState(g.name, "MASTER", 15*time.Second)
	}
	const span = 15 * time.Second
	from := time.Now().Add(1500 * time.Millisecond) // past the first burst
	time.Sleep(time.Until(from.Add(span)))
	for _, g := range groups {
		for _, vip := range g.vips {
			sent := len(lab.Between(seen.Announcements(vip), from, from.Add(span)))
			if want := 4 * int(span/time.Second); sent < want*9/10 || sent > want*11/10 {
				t.Errorf("%s: %d announcements of %v in %v, want %d", g.name, sent, vip, span, want)
			}
		}
	}
	for _, g := range groups {
		advert{src: g.src, vrid: g.vrid, priority: 254, interval: g.interval, addrs: g.vips}.send(l.Node("d2"))
	}
	for _, g := range groups {
		v1.WaitState(g.name, "BACKUP", 2*time.Second)
	}
	quiet := time.Now().Add(100 * time.Millisecond) // what was on its way
	time.Sleep(time.Until(quiet.Add(3 * time.Second)))
	for _, g := range groups {
		if n := len(lab.Between(seen.Announcements(g.vips[0]), quiet, time.Now())); n > 0 {
			t.Errorf("%s: %d announcements of %v by a BACKUP", g.name, n, g.vips[0])
		}
	}
	if n := seen.Lost(); n > 0 {
		t.Errorf("the capture lost %d frames", n)
	}
}

// O03, of the same kind: a refresh that is started anew with every takeover and
// never ended, so that after n flaps it comes n times as often.
//
// Claim: after five flaps the rate is what is configured.
func TestO03RefreshAfterFlaps(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d2, seen := l.Node("d2"), l.Node("cl").Capture()
	const interval = 100 * time.Millisecond
	var list []lab.Instance
	for _, f := range families() {
		list = append(list, lab.Instance{Name: f.instance, VRID: f.vrid, Interval: interval, VIPs: f.vips, Priority: 200,
			Extra: []string{"garp_master_delay 0", "garp_master_refresh 1", "garp_master_refresh_repeat 4"}})
	}
	v1 := l.Node("d1").Vipd(lab.VipdConf("", list...))
	for flap := range 6 {
		for _, f := range families() {
			l.WaitOwner(f.vip, 10*time.Second, "d1")
		}
		if flap == 5 {
			break
		}
		time.Sleep(300 * time.Millisecond)
		for _, f := range families() {
			advert{src: f.source(d2), vrid: f.vrid, priority: 254, interval: interval, addrs: f.vips}.send(d2)
			l.WaitOwner(f.vip, 2*time.Second)
		}
	}
	const span = 5 * time.Second
	from := time.Now().Add(600 * time.Millisecond) // past the burst, before the refresh
	time.Sleep(time.Until(from.Add(span)))
	for _, f := range families() {
		if n := len(lab.Between(seen.Announcements(f.vip), from, from.Add(span))); n != 4*int(span/time.Second) {
			t.Errorf("%s: %d announcements in %v, want %d\n%v", f.name, n, span, 4*int(span/time.Second), v1.Status().Instance(f.instance))
		}
	}
}

// O05: a switch forgets a MAC sooner than the routers forget the neighbour, and
// floods or loses what is sent to a silent VIP. Adverts keep the MAC of the VRRP
// interface known, so the VIP sits on the other one here, where nothing else is
// ever sent.
//
// Claim: with a refresh below the ageing time of the switch its entry never
// expires, and frames to the VIP are never flooded. Without a refresh they are,
// which proves that nothing else keeps the entry alive.
func TestO05RefreshKeepsTheSwitchAware(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, refresh := range []string{"2", "0"} {
			name := f.name + " with a refresh"
			if refresh == "0" {
				name = f.name + " without"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				switchAgeing(t, f, refresh)
			})
		}
	}
}

func switchAgeing(t *testing.T, f family, refresh string) {
	const ageing = 5 // seconds
	l := lab.New(t, "d1", "cl", "r1")
	d1, cl, r1, sw := l.Node("d1"), l.Node("cl"), l.Node("r1"), l.Switch()
	sw.IP(fmt.Sprintf("link set br1 type bridge ageing_time %d", ageing*100)) // in 1/100 s
	mac := d1.MACOn(1)
	cl.IP(fmt.Sprintf("neigh replace %v lladdr %s nud permanent dev eth1", f.vip, mac))
	cl.IP(fmt.Sprintf("route replace %v/%d dev eth1", f.vip, f.vip.BitLen()))
	d1.Vipd(onDevice(f, "eth1", "garp_master_delay 0", "garp_master_refresh "+refresh))
	l.WaitOwner(f.vip, 15*time.Second, "d1")
	flooded := r1.CaptureOn("eth1")
	forgot := false
	for end := time.Now().Add(4 * ageing * time.Second); time.Now().Before(end) && !forgot; time.Sleep(250 * time.Millisecond) {
		forgot = l.FDBOn(1, mac) == ""
	}
	if want := refresh == "0"; forgot != want {
		t.Fatalf("the switch forgot the MAC of the VIP: %v, want %v", forgot, want)
	}
	// What the client sends now reaches the real server's port only when flooded.
	_, _ = cl.Try("ping", "-c", "1", "-W", "1", f.vip.String()) // an answer is not what is judged
	time.Sleep(300 * time.Millisecond)                          // for the capture
	hit := false
	for _, fr := range flooded.Frames() {
		if p, ok := fr.Parse(); ok && p.Dst == f.vip {
			hit = true
		}
	}
	if hit != forgot {
		t.Errorf("a frame to the VIP was flooded: %v, and the switch had forgotten: %v", hit, forgot)
	}
}
