package cases

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/bpf"

	"vipd/test/lab"
)

// Signed adverts (auth_hmac of keepalived 2.4): whoever can send a packet on the LAN
// can depose the master, or hold a backup off with what a dead master said.
//
// Claim: with a shared key neither works, forged or replayed; introduction and a change
// of keys move nobody; what is on the wire is keepalived's format, recomputed here.

const (
	signKey  = "correct-horse-battery-staple-and-more"
	otherKey = "another-horse-battery-staple-and-more"
)

// signed writes the instance with auth_hmac.
func signed(in lab.Instance, keys, more string) string {
	return lab.VipdConf("", in) + fmt.Sprintf("[vrrp_instance.%s.auth_hmac]\nkey = [%s]\n%s\n", in.Name, keys, more)
}

func keyLine(id int, key string) string { return fmt.Sprintf("\"%d %s\"", id, key) }

// signedInstance is the instance of a director, by multicast or by unicast.
func signedInstance(f family, n *lab.Node, priority, version int, unicast bool, peers ...*lab.Node) lab.Instance {
	in := checksumInstance(f, priority)
	if unicast {
		in = unicastInstance(f, n, priority, peers...)
	}
	in.Version, in.Interval = version, unicastInterval
	if version == 2 {
		in.Interval = time.Second
	}
	return in
}

// trailerOf checks the trailer of a captured advert and returns its sequence.
func trailerOf(t *testing.T, a lab.Advert, id byte, key string) uint64 {
	t.Helper()
	size := 8 + len(a.Addrs)*len(a.Src.AsSlice())
	if a.Version == 2 {
		size += 8
	}
	if len(a.Payload) != size+28 {
		t.Fatalf("%v has %d bytes, want %d and 28", a, len(a.Payload), size)
	}
	message, trailer := bytes.Clone(a.Payload[:size]), a.Payload[size:]
	message[6], message[7] = 0, 0
	pseudo := make([]byte, 20)
	pseudo[0], pseudo[1], pseudo[2] = 4, a.Version, a.VRID
	if a.Src.Is6() {
		pseudo[0] = 6
	}
	copy(pseudo[4:], a.Src.AsSlice())
	h := hmac.New(sha256.New, []byte(key))
	for _, part := range [][]byte{pseudo, message, trailer[:12], make([]byte, 16)} {
		h.Write(part)
	}
	if trailer[0] != 1 || trailer[1] != id || !bytes.Equal(h.Sum(nil)[:16], trailer[12:]) {
		t.Fatalf("%v: trailer % x is not that of key %d", a, trailer, id)
	}
	if off := time.Since(time.Unix(int64(binary.BigEndian.Uint32(trailer[4:])), 0)); off < -2*time.Second || off > time.Minute {
		t.Fatalf("%v: signed %v ago", a, off)
	}
	return binary.BigEndian.Uint64(trailer[4:])
}

func TestSignedPair(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for version := 2; version <= 3; version++ {
			if version == 2 && f.vip.Is6() {
				continue
			}
			for _, unicast := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s version %d unicast %v", f.name, version, unicast), func(t *testing.T) {
					t.Parallel()
					signedPair(t, f, version, unicast)
				})
			}
		}
	}
}

func signedPair(t *testing.T, f family, version int, unicast bool) {
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	seen := d2.Capture()
	key := keyLine(1, signKey)
	v1 := d1.Vipd(signed(signedInstance(f, d1, 200, version, unicast, d2), key, ""))
	l.WaitOwner(f.vip, 10*time.Second, "d1")
	v2 := d2.Vipd(signed(signedInstance(f, d2, 100, version, unicast, d1), key, ""))
	v2.WaitState(f.instance, "BACKUP", 5*time.Second)
	p := &pair{Lab: l, t: t}
	p.owns(f, d1, 4*time.Second)
	v1.Signal(syscall.SIGTERM)
	l.WaitOwner(f.vip, 3*time.Second, "d2")
	v1.Wait(5 * time.Second)
	var last uint64
	resigned := false
	for _, a := range seen.Adverts(f.vrid) {
		if a.SrcMAC != d1.MAC() {
			continue
		}
		seq := trailerOf(t, a, 1, signKey)
		if seq <= last {
			t.Fatalf("%v: sequence %#x after %#x", a, seq, last)
		}
		last, resigned = seq, resigned || a.Priority == 0
	}
	if last == 0 || !resigned {
		t.Error("no advert, or no priority 0, of d1 was seen")
	}
	for name, n := range v2.Status().Instance(f.instance).Counters {
		if strings.Contains(name, "dropped") && n > 0 || strings.Contains(name, "unproven") {
			t.Errorf("d2: %s is %d", name, n)
		}
	}
}

// A forged advert, unsigned or signed with another key, and a replayed one do nothing;
// each is counted and named. The twin is the same forgery where nothing is signed.
func TestSignedForgeryAndReplay(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, protect := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s signed %v", f.name, protect), func(t *testing.T) {
				t.Parallel()
				l := lab.New(t, "d1", "d2", "r1")
				d1, d2, r1 := l.Node("d1"), l.Node("d2"), l.Node("r1")
				seen := d2.Capture()
				conf := func(n *lab.Node, priority int) string {
					in := signedInstance(f, n, priority, 3, false)
					if protect {
						return signed(in, keyLine(1, signKey), "")
					}
					return lab.VipdConf("", in)
				}
				v1 := d1.Vipd(conf(d1, 200))
				l.WaitOwner(f.vip, 10*time.Second, "d1")
				v2 := d2.Vipd(conf(d2, 100))
				v2.WaitState(f.instance, "BACKUP", 5*time.Second)
				recorded := seen.WaitAdvert(5*time.Second, f.vrid, f.source(d1), time.Now()).Raw

				forged := r1.Frame(lab.Speech{Src: f.source(r1), VRID: f.vrid, Priority: 255, Interval: unicastInterval, Addrs: f.vips})
				flood := r1.Flood(300, forged)
				p := &pair{Lab: l, t: t}
				if protect {
					p.owns(f, d1, 2*time.Second)
				} else {
					l.WaitOwner(f.vip, 5*time.Second) // the forgery works
				}
				flood.Stop()
				if protect {
					v1.WaitLog("advert from "+f.source(r1).String()+" dropped: it is not signed", 3*time.Second)
				}
				l.WaitOwner(f.vip, 10*time.Second, "d1")

				v1.Kill()
				replay := r1.Flood(20, recorded)
				if !protect {
					l.Never(3*time.Second, "d2 takes over", func() bool { return d2.Has(f.vip) })
					replay.Stop()
					return
				}
				seen.WaitAdvert(3*time.Second, f.vrid, f.source(d2), time.Now())
				v2.WaitLog("it was signed earlier than one that was heard already|it was signed at another time", 3*time.Second)
				replay.Stop()
				if n := v2.Status().Instance(f.instance).Counters["adverts_dropped_replay"]; n < 3 {
					t.Errorf("adverts_dropped_replay is %d", n)
				}
			})
		}
	}
}

// Introduction in three rounds and a change of keys, by reloads on one director after
// the other: d1 stays the only master all the time.
func TestSignedIntroductionAndRotation(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		l := lab.New(t, "d1", "d2", "cl")
		nodes := l.Nodes("d1", "d2")
		seen := l.Node("cl").Capture()
		var daemons []*lab.Daemon
		for i, n := range nodes {
			daemons = append(daemons, n.Vipd(lab.VipdConf("", signedInstance(f, n, 200-100*i, 3, false))))
		}
		l.WaitOwner(f.vip, 10*time.Second, "d1")
		daemons[1].WaitState(f.instance, "BACKUP", 5*time.Second)
		owners := l.WatchOwners(f.vip, 5*time.Millisecond)
		old, both := keyLine(1, signKey), keyLine(1, signKey)+", "+keyLine(2, otherKey)
		for _, step := range [][2]string{
			{old, `mode = "receive-only"`}, {old, `mode = "permissive"`}, {old, ""},
			{both, "active_key = 1"}, {both, "active_key = 2"}, {keyLine(2, otherKey), ""},
		} {
			for i, n := range nodes {
				daemons[i].Reload(signed(signedInstance(f, n, 200-100*i, 3, false), step[0], step[1]))
				time.Sleep(3 * unicastInterval)
			}
		}
		for _, o := range owners.Stop() {
			if len(o.Owners) != 1 || o.Owners[0] != "d1" {
				t.Errorf("meanwhile the owners were %v", o.Owners)
			}
		}
		for _, a := range seen.Adverts(f.vrid) {
			if a.Src != f.source(nodes[0]) {
				t.Fatalf("another master: %v", a)
			}
		}
		last := seen.WaitAdvert(3*time.Second, f.vrid, f.source(nodes[0]), time.Now())
		trailerOf(t, last, 2, otherKey)
		if n := daemons[1].Status().Instance(f.instance).Counters["adverts_unproven_unsigned"]; n < 1 {
			t.Errorf("adverts_unproven_unsigned is %d, though d1 did not sign at first", n)
		}
	})
}

// Where nothing is signed, a signed advert is refused by name.
func TestSignedAgainstUnsigned(t *testing.T) {
	t.Parallel()
	f := families()[0]
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	v1 := d1.Vipd(signed(signedInstance(f, d1, 200, 3, false), keyLine(1, signKey), ""))
	v2 := d2.Vipd(lab.VipdConf("", signedInstance(f, d2, 100, 3, false)))
	l.WaitOwner(f.vip, 10*time.Second, "d1", "d2")
	v1.WaitLog("advert from 10.9.0.2 dropped: it is not signed", 5*time.Second)
	v2.WaitLog("advert from 10.9.0.1 dropped: it is signed .auth_hmac., and we have no keys", 5*time.Second)
	v2.Reload(signed(signedInstance(f, d2, 100, 3, false), keyLine(1, signKey), ""))
	l.WaitOwner(f.vip, 5*time.Second, "d1")
}

// A flood of adverts with wrong signatures, each of which must be proven wrong, touches
// neither the master's pace nor the backup's timer.
func TestSignedFlood(t *testing.T) {
	t.Parallel()
	f := families()[0]
	l := lab.New(t, "d1", "d2", "r1")
	d1, d2, r1 := l.Node("d1"), l.Node("d2"), l.Node("r1")
	seen := d2.Capture()
	key := keyLine(1, signKey)
	v1 := d1.Vipd(signed(signedInstance(f, d1, 200, 3, false), key, ""))
	l.WaitOwner(f.vip, 10*time.Second, "d1")
	v2 := d2.Vipd(signed(signedInstance(f, d2, 100, 3, false), key, ""))
	v2.WaitState(f.instance, "BACKUP", 5*time.Second)
	bad := bytes.Clone(seen.WaitAdvert(5*time.Second, f.vrid, d1.Addr(), time.Now()).Raw)
	seen.Close()
	bad[29] = 77 // the source: nobody who is here
	binary.BigEndian.PutUint16(bad[24:], 0)
	binary.BigEndian.PutUint16(bad[24:], lab.Checksum(bad[14:34]))
	message := bad[34:]
	binary.BigEndian.PutUint16(message[6:], 0)
	size := len(message) - 28
	sum := lab.Checksum(append(append(bytes.Clone(bad[26:34]), 0, 112, 0, byte(size)), message[:size]...))
	binary.BigEndian.PutUint16(message[6:], sum)

	quiet := l.Node("d2").CaptureOn("eth0", fromHost(d1.Addr())...)
	from := time.Now()
	flood := r1.Flood(5000, bad)
	(&pair{Lab: l, t: t}).owns(f, d1, 3*time.Second)
	until := time.Now()
	flood.Stop()
	adverts := lab.Between(lab.From(quiet.Adverts(f.vrid), d1.Addr()), from, until)
	if n, want := len(adverts), int(until.Sub(from)/unicastInterval); n < want*2/3 || n > want*4/3 {
		t.Errorf("%d adverts of d1 within %v, want about %d", n, until.Sub(from), want)
	}
	for _, v := range []*lab.Daemon{v1, v2} {
		if n := v.Status().Instance(f.instance).Counters["adverts_dropped_hmac"]; n < 1000 {
			t.Errorf("%s: adverts_dropped_hmac is %d", v.Node.Name, n)
		}
	}
}

// fromHost is a filter for IPv4 packets of one sender.
func fromHost(a netip.Addr) []bpf.Instruction {
	b := a.As4()
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 26, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(b[:]), SkipFalse: 1},
		bpf.RetConstant{Val: 65535},
		bpf.RetConstant{Val: 0},
	}
}
