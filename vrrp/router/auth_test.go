package router

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

// signing gives an instance auth_hmac with one key, made of the given byte.
func signing(mode vrrp.AuthMode, key byte) func(*Instance) {
	return func(in *Instance) {
		in.Auth = &vrrp.Auth{Mode: mode, Keys: packet.Keys{1: bytes.Repeat([]byte{key}, 32)}, Active: 1, Window: 5 * time.Second}
	}
}

// TestSignedPair: two that share a key are a pair like any other, by multicast and by
// unicast; a crash, a stop (priority 0 is signed too) and a return are as ever.
func TestSignedPair(t *testing.T) {
	for name, how := range map[string]func(*Instance){"multicast": func(*Instance) {}, "unicast": unicastTo("10.9.0.1", "10.9.0.2")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				d1 := n.add("d1", "10.9.0.1", config(200, how, signing(vrrp.AuthEnforce, 7)))
				d2 := n.add("d2", "10.9.0.2", config(100, how, signing(vrrp.AuthEnforce, 7)))
				n.run(10 * time.Second)
				n.wantOwners("d1")
				d1.kill()
				n.run(time.Second)
				n.wantOwners("d2")
				n.add("d1", "10.9.0.1", config(200, how, signing(vrrp.AuthEnforce, 7)))
				n.run(10 * time.Second)
				n.wantOwners("d1")
				if s := d2.status("VI_1"); len(s.Drops) > 0 || s.Unproven != nil {
					t.Errorf("d2 dropped %v, doubts %v", s.Drops, s.Unproven)
				}
			})
		})
	}
}

// TestSignaturesThatDoNotFit are refused by name, and counted.
func TestSignaturesThatDoNotFit(t *testing.T) {
	for name, c := range map[string]struct {
		theirs func(*Instance)
		want   packet.DropReason
	}{
		"another key": {signing(vrrp.AuthEnforce, 8), packet.DropHMAC},
		"another id": {func(in *Instance) {
			signing(vrrp.AuthEnforce, 7)(in)
			in.Auth.Keys, in.Auth.Active = packet.Keys{2: in.Auth.Keys[1]}, 2
		}, packet.DropKeyID},
		"none": {func(*Instance) {}, packet.DropUnsigned},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				d1 := n.add("d1", "10.9.0.1", config(100, signing(vrrp.AuthEnforce, 7)))
				n.add("d2", "10.9.0.2", config(200, c.theirs))
				n.run(10 * time.Second)
				n.wantOwners("d1", "d2")
				if s := d1.status("VI_1"); s.Drops[c.want] < 5 || s.Received != 0 {
					t.Errorf("d1 dropped %v, heard %d", s.Drops, s.Received)
				}
				if len(d1.drops) == 0 || d1.drops[0].Reason != c.want || d1.drops[0].Accepted {
					t.Errorf("reported %v", d1.drops)
				}
			})
		})
	}
}

// TestIntroductionOfSignatures: from none to enforce on three directors, one after the
// other, in three rounds; at no time are there two masters, and nobody moves.
func TestIntroductionOfSignatures(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		names, priorities := []string{"d1", "d2", "d3"}, []uint8{200, 150, 100}
		for i, name := range names {
			n.add(name, "10.9.0."+name[1:], config(priorities[i]))
		}
		n.run(10 * time.Second)
		for _, mode := range []vrrp.AuthMode{vrrp.AuthReceiveOnly, vrrp.AuthPermissive, vrrp.AuthEnforce} {
			for i, name := range names {
				n.nodes[name].apply(config(priorities[i], signing(mode, 7)))
				for range 40 {
					n.run(250 * time.Millisecond)
					n.wantOwners("d1")
				}
			}
		}
		if s := n.nodes["d3"].status("VI_1"); len(s.Drops) > 0 || s.Unproven[packet.DropUnsigned] < 5 || s.Status.State != vrrp.Backup {
			t.Errorf("d3 is %v, dropped %v, doubted %v", s.Status.State, s.Drops, s.Unproven)
		}
	})
}

// TestDoubtsAreTold: in permissive mode a wrong signature passes, is counted and told;
// in receive-only mode one that is missing is not told.
func TestDoubtsAreTold(t *testing.T) {
	for mode, told := range map[vrrp.AuthMode]int{vrrp.AuthPermissive: 1, vrrp.AuthReceiveOnly: 0} {
		inBubble(t, func(t *testing.T, n *network) {
			d1 := n.add("d1", "10.9.0.1", config(100, signing(mode, 7)))
			n.add("d2", "10.9.0.2", config(200))
			n.run(10 * time.Second)
			d1.wantState(vrrp.Backup, "")
			if s := d1.status("VI_1"); s.Unproven[packet.DropUnsigned] < 5 || len(d1.drops) != told || told == 1 && !d1.drops[0].Accepted {
				t.Errorf("mode %d: doubts %v, told %v", mode, s.Unproven, d1.drops)
			}
		})
	}
}

// TestReplay: what a master said is played again when it is dead; the other takes over
// in time. The twin is the same without signatures, where the replay holds it off.
func TestReplay(t *testing.T) {
	for name, signed := range map[string]bool{"signed": true, "not signed": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				auth := func(*Instance) {}
				if signed {
					auth = signing(vrrp.AuthEnforce, 7)
				}
				var last socket.Frame
				n.lan.Tap(func(f socket.Frame) {
					if f.From == "d1" {
						last = f
					}
				})
				d1 := n.add("d1", "10.9.0.1", config(200, auth))
				n.add("d2", "10.9.0.2", config(100, auth))
				n.run(10 * time.Second)
				recorded := last
				recorded.From = "somebody"
				d1.crash()
				for range 10 {
					n.lan.Inject(recorded)
					n.run(500 * time.Millisecond)
				}
				if signed {
					n.wantOwners("d2")
				} else {
					n.wantOwners()
				}
			})
		})
	}
}

// TestKeysReachTheSocket: an endpoint differs when its keys do.
func TestKeysReachTheSocket(t *testing.T) {
	a := Endpoint{Instance: "VI_1", Local: netip.MustParseAddr("10.9.0.1"), Keys: packet.Keys{1: {1}}}
	b := a
	b.Keys = packet.Keys{1: {1}}
	if !a.Equal(b) {
		t.Error("the same keys differ")
	}
	b.Keys = packet.Keys{1: {2}}
	if a.Equal(b) {
		t.Error("other keys do not differ")
	}
}
