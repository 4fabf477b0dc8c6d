package router

import (
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp"
)

// withVMAC makes an instance that has a virtual MAC.
func withVMAC(in *Instance) { in.VMAC, in.SharedMAC = "vrrp.51", true }

// on is a link with a virtual MAC on eth0.
func on(index int) Link { return Link{Index: index, Up: true, Carrier: true, Parent: "eth0"} }

// TestVMACLinks: an instance with a virtual MAC needs its link and the interface below, sends from the address of the
// latter through the former, and says which of the two is missing, and why.
func TestVMACLinks(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200, withVMAC))
		eth0 := link(2, "10.9.0.1")
		set := func(vmac *Link, l Link) {
			links := map[string]Link{"eth0": l}
			if vmac != nil {
				links["vrrp.51"] = *vmac
			}
			d1.setLinks(links)
		}
		good := on(7)
		set(nil, eth0)
		d1.wantState(vrrp.Fault, "the virtual-MAC link vrrp.51 does not exist")
		set(&Link{Problem: "this kernel has no macvlan"}, eth0)
		d1.wantState(vrrp.Fault, "the virtual-MAC link vrrp.51 is not there: this kernel has no macvlan")
		foreign := good
		foreign.Problem = "a link of this name belongs to others"
		set(&foreign, eth0)
		d1.wantState(vrrp.Fault, "belongs to others")
		set(&good, eth0)
		n.run(5 * time.Second)
		n.wantOwners("d1")
		e := d1.where["VI_1"]
		if e.Interface != "vrrp.51" || e.Index != 7 || e.Parent != 2 {
			t.Errorf("adverts leave by %q (%d) on %d, want vrrp.51 (7) on 2", e.Interface, e.Index, e.Parent)
		}
		if s := d1.router.Status()[0]; s.Source.String() != "10.9.0.1" {
			t.Errorf("adverts come from %v, want the address of eth0", s.Source)
		}

		// It may be away, or down, for a moment, but not for longer.
		d := noCarrier(good)
		for _, bad := range []*Link{nil, &d} {
			d1.take()
			set(bad, eth0)
			n.run(190 * time.Millisecond)
			set(&good, eth0)
			n.run(time.Second)
			if got := d1.transitions(); len(got) > 0 {
				t.Errorf("away for a moment: %v", got)
			}
		}
		set(nil, eth0)
		n.run(210 * time.Millisecond)
		d1.wantState(vrrp.Fault, "the virtual-MAC link vrrp.51 does not exist")
		set(&good, eth0)
		n.run(5 * time.Second)
		problem := Link{Problem: "others remove it"}
		set(&problem, eth0)
		d1.wantState(vrrp.Fault, "others remove it")
		set(&good, eth0)
		n.run(5 * time.Second)

		set(&d, eth0)
		n.run(210 * time.Millisecond)
		d1.wantState(vrrp.Fault, "the virtual-MAC link vrrp.51 has no carrier")
		set(&d, noCarrier(eth0))
		d1.wantState(vrrp.Fault, "eth0 has no carrier")
		set(&good, eth0)
		n.run(5 * time.Second)
		n.wantOwners("d1")
		again := on(9) // made anew: another socket
		set(&again, eth0)
		synctest.Wait()
		if e := d1.where["VI_1"]; e.Index != 9 {
			t.Errorf("the socket is on index %d, want 9", e.Index)
		}
	})
}

// TestVMACSwitched: a reload that switches the virtual MAC, or vmac_xmit_base, changes the socket and nothing else.
func TestVMACSwitched(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		plain := config(200)
		d1 := n.boot("d1", plain)
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1"), "vrrp.51": on(7)})
		n.run(5 * time.Second)
		n.wantOwners("d1")
		d1.take()
		base := config(200, withVMAC, func(in *Instance) { in.XmitBase, in.SharedMAC = true, false })
		for _, c := range []struct {
			cfg   Instance
			iface string
		}{{config(200, withVMAC), "vrrp.51"}, {base, "eth0"}, {config(200, withVMAC), "vrrp.51"}, {plain, "eth0"}} {
			if err := d1.router.Apply(t.Context(), []Instance{c.cfg}); err != nil {
				t.Fatal(err)
			}
			n.run(2 * time.Second)
			if e := d1.where["VI_1"]; e.Interface != c.iface {
				t.Errorf("adverts leave by %q, want %q", e.Interface, c.iface)
			}
			if got := d1.transitions(); len(got) > 0 {
				t.Errorf("the state changed: %v", got)
			}
		}
	})
}

// TestDontTrackPrimary: with it a link that is down is no fault, one that is not there still is.
func TestDontTrackPrimary(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200, withVMAC, func(in *Instance) { in.DontTrack = true }))
		dead := on(7)
		dead.Carrier = false
		d1.setLinks(map[string]Link{"eth0": down(link(2, "10.9.0.1")), "vrrp.51": dead})
		d1.wantState(vrrp.Backup, "listening")
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1")})
		d1.wantState(vrrp.Fault, "vrrp.51 does not exist")
	})
}

// TestVMACDelays: a link with a virtual MAC has the delays of the interface it is on.
func TestVMACDelays(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.boot("d1", config(200, withVMAC))
		d1.router.Delay(map[string]LinkDelay{"eth0": {Down: time.Second}})
		good, dead := on(7), noCarrier(on(7))
		set := func(e, v Link) { d1.setLinks(map[string]Link{"eth0": e, "vrrp.51": v}) }
		set(link(2, "10.9.0.1"), good)
		n.run(5 * time.Second)
		n.wantOwners("d1")
		set(noCarrier(link(2, "10.9.0.1")), dead)
		n.run(900 * time.Millisecond)
		d1.wantState(vrrp.Master, "")
		n.run(200 * time.Millisecond)
		d1.wantState(vrrp.Fault, "eth0 has no carrier")
	})
}
