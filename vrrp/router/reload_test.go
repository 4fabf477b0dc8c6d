package router

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

// second is another instance on the same interface.
func second(priority uint8) Instance {
	return config(priority, func(in *Instance) {
		in.Name, in.VRID, in.Addresses = "VI_2", 52, []netip.Addr{netip.MustParseAddr("10.9.0.101")}
	})
}

// TestReloadUnderLoad reloads once a second for a minute, with another instance
// and another VIP that come and go. VI_1 must not notice.
func TestReloadUnderLoad(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		fast := func(in *Instance) { in.AdvertInterval = 100 * time.Millisecond }
		d1, d2 := n.add("d1", "10.9.0.1", config(200, fast), second(200)), n.add("d2", "10.9.0.2", config(100, fast))
		n.run(5 * time.Second)
		d1.take()
		d2.take()
		for i := range 60 {
			other := second(200)
			if i%2 == 0 {
				other.Addresses = append(other.Addresses, netip.MustParseAddr("10.9.0.102"))
			}
			third := config(50, func(in *Instance) { in.Name, in.VRID = "VI_3", 53 })
			d1.apply([][]Instance{{config(200, fast), other}, {config(200, fast), other, third}}[i/2%2]...)
			n.run(time.Second)
		}
		log := d1.take()
		adverts := times(log, "VI_1 advert 200")
		for i := range adverts {
			if i > 0 && adverts[i]-adverts[i-1] != 100*time.Millisecond {
				t.Fatalf("adverts at %v and %v", adverts[i-1], adverts[i])
			}
		}
		if len(adverts) != 600 || len(times(log, "VI_1")) != 600 {
			t.Errorf("%d adverts of %d actions of VI_1, want 600 of 600", len(adverts), len(times(log, "VI_1")))
		}
		if got := len(times(log, "VI_2")); got != 60 || len(times(log, "VI_2 advert 200")) != 60 {
			t.Errorf("VI_2 did more than advertise: %d actions", got)
		}
		if got := d2.take(); len(got) != 0 {
			t.Errorf("d2:\n%s", text(got))
		}
	})
}

// TestReloadChanges: what a change of configuration does to a MASTER.
func TestReloadChanges(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Instance)
		want   string // what is done at once
	}{
		{"nothing", func(*Instance) {}, ""},
		{"higher priority", func(in *Instance) { in.Priority = 210 }, ""},
		{"lower priority", func(in *Instance) { in.Priority = 90 }, "advert 90;"},
		{"interval", func(in *Instance) { in.AdvertInterval = 2 * time.Second }, "advert 200;"},
		{"addresses", func(in *Instance) { in.Addresses = append(in.Addresses, netip.MustParseAddr("10.9.0.7")) }, ""},
		{"nopreempt", func(in *Instance) { in.NoPreempt = true }, ""},
		{"tracker", func(in *Instance) { in.TrackInterfaces = []Track{{Name: "eth0", Weight: -10}} }, ""},
		{"script without result", func(in *Instance) { in.TrackScripts = []Track{{Name: "new"}} }, ""},
		{"failing tracker", func(in *Instance) { in.TrackInterfaces = []Track{{Name: "eth5", Weight: -10}} }, "advert 190;"},
		{"name", func(in *Instance) { in.Name = "VI_X" }, ""},
		{"VRID", func(in *Instance) { in.VRID = 77 },
			"advert 0;quiet;want false;MASTER -> INIT: shut down;INIT -> BACKUP: listening for a master for 3.21875s;"},
		{"version", func(in *Instance) { in.Version = 2 },
			"advert 0;quiet;want false;MASTER -> INIT: shut down;INIT -> BACKUP: listening for a master for 3.21875s;"},
		{"interface", func(in *Instance) { in.Interface = "eth1" },
			"advert 0;quiet;want false;MASTER -> INIT: shut down;INIT -> FAULT: eth1 does not exist;"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				d1 := n.add("d1", "10.9.0.1", config(200))
				n.run(3300 * time.Millisecond)
				d1.take()
				changed := config(200)
				tt.change(&changed)
				d1.apply(changed)
				got := ""
				for _, e := range d1.take() {
					if rest, ok := strings.CutPrefix(e.text, "VI_1 "); ok {
						got += rest + ";"
					}
				}
				if got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if got := len(d1.router.Status()); got != 1 {
					t.Errorf("%d instances, want 1", got)
				}
			})
		})
	}
}

// TestReloadKeepsTrackers: a script result survives a reload, and does not
// survive that nobody tracks the script.
func TestReloadKeepsTrackers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		track := func(in *Instance) { in.TrackScripts = []Track{{Name: "chk"}} }
		d1 := n.add("d1", "10.9.0.1", config(200, track))
		d1.router.TrackResult("chk", false)
		synctest.Wait()
		d1.wantState(vrrp.Fault, "script chk failed")
		d1.apply(config(201, track))
		d1.wantState(vrrp.Fault, "script chk failed")
		d1.apply(config(201))
		d1.wantState(vrrp.Backup, "listening")
		d1.apply(config(201, track), second(1))
		n.run(0)
		d1.apply(second(1))
		d1.apply(config(201, track), second(1))
		d1.wantState(vrrp.Init, "")
	})
}

func TestApplyRefusesConflicts(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.run(4 * time.Second)
		same := second(1)
		same.VRID = 51
		for want, set := range map[string][]Instance{
			`"VI_1" is used twice`: {config(1), config(1)},
			"both use VRID 51":     {config(1), same},
		} {
			if err := d1.router.Apply(t.Context(), set); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v, want %q", err, want)
			}
		}
		n.wantOwners("d1")
		other := second(1)
		other.VRID, other.IPv6 = 51, true // the other family is another router
		d1.apply(config(200), other)
	})
}

// TestManyInstancesKeepCadence runs 200 instances at 10 ms on two nodes under a
// flood of strangers.
func TestManyInstancesKeepCadence(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		set := func(odd, even uint8) []Instance {
			var out []Instance
			for i := range 200 {
				priority := odd
				if i%2 == 0 {
					priority = even
				}
				out = append(out, config(priority, func(in *Instance) {
					in.Name, in.VRID = fmt.Sprintf("I%03d", i), uint8(i+1)
					in.AdvertInterval = 10 * time.Millisecond
					in.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 9, 1, byte(i)})}
				}))
			}
			return out
		}
		d1, d2 := n.add("d1", "10.9.0.1", set(100, 200)...), n.add("d2", "10.9.0.2", set(200, 100)...)
		n.run(100 * time.Millisecond)
		d1.take()
		d2.take()
		for range 500 {
			n.lan.Inject(foreign(250, "10.9.0.50", "10.9.0.200"))
			n.run(time.Millisecond)
		}
		log := append(d1.take(), d2.take()...)
		for i := range 200 {
			name := fmt.Sprintf("I%03d ", i)
			adverts := times(log, name+"advert 200")
			if len(adverts) < 49 || len(times(log, name)) != len(adverts) {
				t.Fatalf("%s: %d adverts of %d actions in 500 ms", name, len(adverts), len(times(log, name)))
			}
			for k := 1; k < len(adverts); k++ {
				if gap := adverts[k] - adverts[k-1]; gap != 10*time.Millisecond {
					t.Fatalf("%s: gap %v", name, gap)
				}
			}
		}
	})
}

// TestPortsCannotBlockByContract: nothing that takes time hands a result back, so
// the router has nothing to wait for.
func TestPortsCannotBlockByContract(t *testing.T) {
	for _, port := range []reflect.Type{reflect.TypeFor[Addresses](), reflect.TypeFor[Announcer](), reflect.TypeFor[Observer]()} {
		for i := range port.NumMethod() {
			if m := port.Method(i); m.Type.NumOut() != 0 {
				t.Errorf("%v.%s returns something", port, m.Name)
			}
		}
	}
}

// TestDeliverNeverBlocks: without Run nobody takes the adverts.
func TestDeliverNeverBlocks(t *testing.T) {
	r := New(Ports{})
	for range receiveQueue + 5 {
		r.Deliver(&socket.Received{})
	}
	if got := r.Overruns(); got != 5 {
		t.Errorf("%d overruns, want 5", got)
	}
}

type brokenWaiter struct {
	*timerWaiter
	broken atomic.Bool
}

func (w *brokenWaiter) Wait(until time.Time, patience time.Duration) error {
	if w.broken.Load() {
		return errors.New("bad file descriptor")
	}
	return w.timerWaiter.Wait(until, patience)
}

// TestBrokenWaiter: nothing can be on time, so everything is given up.
func TestBrokenWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		w := &brokenWaiter{timerWaiter: newTimerWaiter()}
		n.waiter = w
		d1 := n.boot("d1", config(255))
		d1.setLinks(map[string]Link{"eth0": link(2, vip.String())})
		n.run(time.Second)
		w.broken.Store(true)
		w.Wake()
		if err := <-d1.done; err == nil || !strings.Contains(err.Error(), "bad file descriptor") {
			t.Errorf("Run returned %v", err)
		}
		if got := times(d1.take(), "VI_1 advert 0"); len(got) != 1 {
			t.Errorf("%d resignations, want 1", len(got))
		}
		d1.done <- nil
	})
}

// earlyWaiter comes back too early.
type earlyWaiter struct{ *timerWaiter }

func (w earlyWaiter) Wait(until time.Time, patience time.Duration) error {
	if until.IsZero() {
		return w.timerWaiter.Wait(until, patience)
	}
	early := time.Until(until) / 2
	if early < time.Microsecond {
		early = time.Until(until)
	}
	return w.timerWaiter.Wait(time.Now().Add(early), 0)
}

// TestEarlyWaiter: one that comes back too early is waited in again.
func TestEarlyWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		n.waiter = earlyWaiter{newTimerWaiter()}
		d1 := n.boot("d1", config(200))
		d1.setLinks(map[string]Link{"eth0": link(2, "10.9.0.1")})
		n.run(13300 * time.Millisecond)
		if got := times(d1.take(), "VI_1 advert"); len(got) != 11 || got[10] != 13218750*time.Microsecond {
			t.Errorf("adverts at %v", got)
		}
	})
}

func TestLimiter(t *testing.T) {
	l, now := limiter{}, time.Unix(1000, 0)
	k := func(i int) limitKey { return limitKey{text: fmt.Sprint(i)} }
	if !l.allow(k(0), now) || l.allow(k(0), now.Add(limitPeriod-1)) || !l.allow(k(0), now.Add(limitPeriod)) {
		t.Error("not once a period")
	}
	for i := range 10 * limitSize {
		l.allow(k(i), now.Add(limitPeriod))
	}
	if len(l) != limitSize {
		t.Errorf("%d reports remembered, want %d", len(l), limitSize)
	}
	if !l.allow(k(-1), now.Add(2*limitPeriod)) || len(l) != 1 {
		t.Errorf("old reports were not forgotten: %d", len(l))
	}
}

// TestReceivePathDoesNotAllocate covers an accepted and a foreign advert.
func TestReceivePathDoesNotAllocate(t *testing.T) {
	d := &node{wanted: map[string]bool{}}
	r := New(Ports{Sender: d, Addresses: (*addressPort)(d), Announcer: (*announcePort)(d), Observer: (*observePort)(d)})
	d.net = &network{start: time.Now()}
	r.apply([]Instance{config(100)})
	r.links = map[string]Link{"eth0": link(2, "10.9.0.2")}
	r.updateGroup(r.list[0])
	ours := &socket.Received{
		Advert: packet.Advert{Version: 3, VRID: 51, Priority: 200, Interval: time.Second, Addrs: []netip.Addr{vip}},
		Src:    netip.MustParseAddr("10.9.0.1"), Dst: socket.Group4, TTL: 255, Interface: "eth0",
	}
	theirs := *ours
	theirs.Advert.Addrs = []netip.Addr{netip.MustParseAddr("10.1.1.1")}
	r.receive(&theirs) // the first one is reported
	for name, p := range map[string]*socket.Received{"accepted": ours, "foreign": &theirs} {
		if n := testing.AllocsPerRun(100, func() { r.receive(p) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if r.list[0].receivedCount == 0 || r.list[0].drops[packet.DropForeign] == 0 {
		t.Error("nothing was received")
	}
}

// TestSocketsThatTakeTheirTime: an instance whose socket is being opened waits in
// silence; when that is told to be over it starts to listen, or is at fault. One that
// has its socket does not notice.
func TestSocketsThatTakeTheirTime(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d1 := n.add("d1", "10.9.0.1", config(200))
		n.run(4 * time.Second)
		n.wantOwners("d1")
		d1.take()
		setErr := func(err error) {
			d1.mu.Lock()
			d1.syncErr = map[string]error{"VI_2": err}
			d1.mu.Unlock()
		}
		state := func(want vrrp.State, reason string) {
			t.Helper()
			s := d1.router.Status()[1].Status
			if s.State != want || !strings.Contains(s.Reason, reason) {
				t.Errorf("%v (%s), want %v (%s)", s.State, s.Reason, want, reason)
			}
		}
		setErr(ErrOpening)
		d1.apply(config(200), second(200))
		n.run(10 * time.Second)
		state(vrrp.Init, "waiting for the opening of the VRRP socket on eth0")
		setErr(errors.New("no buffer space"))
		d1.router.SocketsChanged()
		state(vrrp.Fault, "no VRRP socket on eth0: no buffer space")
		setErr(nil)
		d1.router.SocketsChanged()
		state(vrrp.Backup, "listening")
		n.run(4 * time.Second)
		state(vrrp.Master, "")
		setErr(ErrOpening) // another group: what is MASTER stays it
		d1.router.SocketsChanged()
		state(vrrp.Master, "")
		log := d1.take()
		if got := len(times(log, "VI_1")); got != len(times(log, "VI_1 advert 200")) || got != 14 {
			t.Errorf("VI_1 did %d things:\n%s", got, text(log))
		}
	})
}
