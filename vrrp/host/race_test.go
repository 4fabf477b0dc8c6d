package host_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// watchAgain makes the kernel's changes known again after OnChange(nil), the present state first.
func (r *rig) watchAgain() {
	r.t.Helper()
	push := func() {
		s, err := r.k.State()
		must(r.t, err)
		r.State(s)
	}
	r.k.OnChange(push)
	push()
	r.settle()
}

// one is a rig with one wanted address.
func one(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.9.0.100/32")})
		r.Want("A", true)
		r.settle()
		expect(t, r.j.take(), "present A 10.9.0.100/32")
		f(t, r)
	})
}

// An interface may be gone and back between two snapshots: that is no fight.
func TestRecreationBetweenTwoSnapshots(t *testing.T) {
	one(t, func(t *testing.T, r *rig) {
		for range 5 {
			r.k.OnChange(nil)
			r.k.RemoveLink("eth0")
			r.k.NewLink("eth0")
			must(t, r.k.Add("eth0", foreign("10.9.0.11/24")))
			r.watchAgain()
			expect(t, r.j.take(), "lost A 10.9.0.100/32\npresent A 10.9.0.100/32")
		}
	})
}

// A snapshot that was overtaken by somebody's repair of the same address starts no fight.
func TestOvertakenSnapshotIsNoFight(t *testing.T) {
	one(t, func(t *testing.T, r *rig) {
		for range 6 {
			r.k.OnChange(nil)
			must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
			time.Sleep(time.Millisecond)
			without, err := r.k.State()
			must(t, err)
			must(t, r.k.Add("eth0", addr("10.9.0.100/32")))
			r.State(without)
			r.settle()
			expect(t, r.j.take(), "lost A 10.9.0.100/32\npresent A 10.9.0.100/32")
		}
		r.Want("A", false)
		r.settle()
		expect(t, r.addresses(), baseOnly)
	})
}

// A snapshot older than our own write says nothing about the address.
func TestOldSnapshotIsNoLoss(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.9.0.100/32")})
		r.settle()
		r.k.OnChange(nil)
		old, err := r.k.State()
		must(t, err)
		time.Sleep(time.Millisecond)
		r.Want("A", true)
		time.Sleep(time.Millisecond)
		r.State(old)
		r.settle()
		expect(t, r.j.take(), "present A 10.9.0.100/32")
	})
}

// Of two snapshots that wait, the newer one counts, whichever came first.
func TestNewerSnapshotCounts(t *testing.T) {
	one(t, func(t *testing.T, r *rig) {
		r.k.OnChange(nil)
		old, err := r.k.State()
		must(t, err)
		time.Sleep(time.Millisecond)
		must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
		recent, err := r.k.State()
		must(t, err)
		r.State(recent)
		r.State(old)
		r.settle()
		expect(t, r.j.take(), "lost A 10.9.0.100/32\npresent A 10.9.0.100/32")
	})
}

// An address that went before we looked needs no removal and is no error.
func TestRemovingWhatIsGone(t *testing.T) {
	one(t, func(t *testing.T, r *rig) {
		r.k.OnChange(nil)
		must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
		r.k.Writes()
		r.Want("A", false)
		time.Sleep(5 * time.Second)
		expect(t, r.j.take(), "")
		if w := r.k.Writes(); len(w) != 1 {
			t.Errorf("calls: %q", w)
		}
	})
}

// An interface that is renamed takes our address along; it must not stay there.
func TestRenamedInterfaceLosesTheAddress(t *testing.T) {
	one(t, func(t *testing.T, r *rig) {
		must(t, r.k.RenameLink("eth0", "lan0"))
		r.settle()
		expect(t, r.addresses(), strings.ReplaceAll(baseOnly, "eth0", "lan0"))
		must(t, r.k.RenameLink("lan0", "eth0"))
		r.settle()
		expect(t, r.j.take(), "lost A 10.9.0.100/32\npresent A 10.9.0.100/32")
	})
}

// A snapshot from the moment in which the kernel had dropped the secondaries of a removed primary is no loss of them.
func TestSnapshotBetweenRemovalAndRestoration(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.7.0.1/24"), set("B", "10.7.0.2/24")})
		r.Want("A", true)
		r.settle()
		r.Want("B", true)
		r.settle()
		r.j.take()
		gaps := 0
		r.k.OnChange(func() {
			s, err := r.k.State()
			must(t, err)
			time.Sleep(time.Millisecond)
			if !s.Has("eth0", pfx("10.7.0.2/24")) {
				gaps++
				r.State(s)
			}
		})
		r.Want("A", false)
		r.settle()
		expect(t, r.j.take(), "")
		if gaps == 0 {
			t.Error("no snapshot fell into the gap; the test is worth nothing")
		}
		expect(t, r.addresses(), "ip addr add 10.7.0.2/24 dev eth0 proto 112\n"+baseOnly)
	})
}

// Somebody else's address that went with one of ours is owed until the kernel takes it again.
func TestO22RestorationIsRetried(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.7.0.1/24")})
		r.Want("A", true)
		r.settle()
		must(t, r.k.Add("eth0", foreign("10.7.0.4/24")))
		r.settle()
		r.k.Fail(hosttest.OpState, netip.Prefix{}, 1, unix.ENOBUFS) // the look before the removal
		r.k.Fail(hosttest.OpAdd, pfx("10.7.0.4/24"), 3, unix.ENOBUFS)
		r.Want("A", false)
		time.Sleep(time.Second)
		expect(t, r.addresses(), "ip addr add 10.7.0.4/24 dev eth0\n"+baseOnly)
	})
}
