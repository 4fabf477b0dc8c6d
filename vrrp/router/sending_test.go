package router

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
)

// TestMTU: a master whose interface got too small for all its addresses names those
// that fit, so that the others still hear it, and says so; with the old MTU it names
// all again.
func TestMTU(t *testing.T) {
	for name, c := range map[string]struct {
		mtu    int
		change func(*Instance)
		room   int
	}{
		"version 3": {576, func(*Instance) {}, 137},
		"version 2": {576, func(in *Instance) { in.Version = 2 }, 135},
		"signed": {576, func(in *Instance) {
			in.Auth = &vrrp.Auth{Keys: packet.Keys{1: make([]byte, 32)}, Active: 1, Window: 5 * time.Second}
		}, 130},
		"large enough": {848, func(*Instance) {}, 200},
		"not known":    {0, func(*Instance) {}, 200},
		"tiny":         {28, func(*Instance) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				many := func(in *Instance) {
					in.Addresses = nil
					for a := netip.MustParseAddr("10.9.2.0"); len(in.Addresses) < 200; a = a.Next() {
						in.Addresses = append(in.Addresses, a)
					}
					c.change(in)
				}
				d1 := n.add("d1", "10.9.0.1", config(200, many))
				d2 := n.add("d2", "10.9.0.2", config(100, many))
				n.run(5 * time.Second)
				n.wantOwners("d1")
				small := link(2, "10.9.0.1")
				small.MTU = c.mtu
				d1.setLinks(map[string]Link{"eth0": small})
				n.run(10 * time.Second)
				n.wantOwners("d1")
				wantListed(t, d1, c.room)
				told := len(d1.notes) > 0 && strings.Contains(d1.notes[0].Text, "leaves room for")
				if told != (c.room < 200) || len(d1.notes) > 1 {
					t.Errorf("notes %v", d1.notes)
				}
				if c.room > 0 && c.room < 200 && !d2.status("VI_1").Status.AddressMismatch {
					t.Error("the backup does not see that addresses are missing")
				}
				d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1")})
				n.run(2 * time.Second)
				wantListed(t, d1, 200)
			})
		})
	}
}

// wantListed checks how many addresses the last advert of a node named.
func wantListed(t *testing.T, d *node, want int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listed != want {
		t.Errorf("%s names %d addresses, want %d", d.name, d.listed, want)
	}
}

// TestUnsent: a MASTER whose adverts cannot be sent says why, from the third on, and no
// longer than that is so.
func TestUnsent(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.run(4 * time.Second)
		n.wantOwners("d1")
		fail := func(err error) {
			d1.mu.Lock()
			defer d1.mu.Unlock()
			d1.sendErr = err
		}
		want := func(after time.Duration, text string) {
			t.Helper()
			n.run(after)
			if got := d1.status("VI_1").Unsent; got != text {
				t.Errorf("unsent %q, want %q", got, text)
			}
		}
		fail(errors.New("operation not permitted"))
		want(2*time.Second, "")
		want(time.Second, "operation not permitted")
		fail(nil)
		want(time.Second, "")
		fail(errors.New("no buffer space available"))
		want(3*time.Second, "no buffer space available")
		d1.setLinks(map[string]Link{"eth0": {Index: 2, Up: false}})
		want(time.Second, "") // no MASTER any more
	})
}
