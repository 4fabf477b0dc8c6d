package connsync

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// TestRoles: the role follows, the old master goes on telling for a while, and a reload touches nothing.
func TestRoles(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.expect(t, "start", "+backup")
		r.Configure(config())
		time.Sleep(time.Minute)
		r.expect(t, "a reload without a change", "")
		r.Lead(true)
		r.expect(t, "MASTER", "+master")
		time.Sleep(3*time.Second + Period)
		r.expect(t, "the old master has told everything", "-backup")
		r.Lead(false)
		r.expect(t, "BACKUP", "+backup")
		time.Sleep(3*time.Second + Period)
		r.expect(t, "the master has told everything", "-master")
		both := config()
		both.Both = true
		r.Configure(both)
		r.expect(t, "both roles", "+master")
		changed := config()
		changed.Both, changed.Daemon.ID = true, 6
		r.Configure(changed)
		r.expect(t, "another id", "-backup -master +master +backup")
		if s := r.Status(); len(s.Running) != 2 || s.Since.IsZero() {
			t.Errorf("%+v", s)
		}
		r.Configure(nil)
		r.expect(t, "no daemon any more", "-master -backup")
		if _, err := os.Stat(r.record); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the record stays: %v", err)
		}
	})
}

// TestLeftovers: what a crash left is taken over as it is, or stopped when it is not wanted; that of others stays.
func TestLeftovers(t *testing.T) {
	left := func() []ipvs.Daemon {
		return []ipvs.Daemon{{Role: ipvs.SyncBackup, Interface: "eth0", ID: 5, MaxLen: 1472}}
	}
	run(t, left(), true, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.expect(t, "taken over", "")
	})
	run(t, left(), true, func(t *testing.T, r *rig) {
		r.Configure(nil)
		r.expect(t, "not wanted", "-backup")
	})
	run(t, left(), false, func(t *testing.T, r *rig) {
		r.Configure(nil)
		time.Sleep(time.Minute)
		r.expect(t, "not ours", "")
		if err := r.Release(t.Context(), nil); err != nil {
			t.Error(err)
		}
		r.expect(t, "not ours at the stop", "")
	})
}

// TestCrashOfMaster: the news that the kernel kept back when vipd was killed are told before the role changes.
func TestCrashOfMaster(t *testing.T) {
	left := []ipvs.Daemon{{Role: ipvs.SyncMaster, Interface: "eth0", ID: 5, MaxLen: 1472}}
	run(t, left, true, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.expect(t, "after the crash", "+backup")
		time.Sleep(3*time.Second - Period)
		r.expect(t, "not yet told", "")
		time.Sleep(2 * Period)
		r.expect(t, "told", "-master")
	})
}

// TestClearedAway: the directory of the record is cleared away; the role follows all the same, and the record is back.
func TestClearedAway(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.expect(t, "start", "+backup")
		if err := os.RemoveAll(filepath.Dir(r.record)); err != nil {
			t.Fatal(err)
		}
		r.Lead(true)
		r.expect(t, "MASTER", "+master")
		if _, err := os.Stat(r.record); err != nil {
			t.Error(err)
		}
	})
}

// TestInstanceNamed: with an instance named by a reload, the master tells what it has before it goes.
func TestInstanceNamed(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		both := config()
		both.Both = true
		r.Configure(both)
		r.expect(t, "both", "+master +backup")
		r.Configure(config())
		r.expect(t, "an instance", "")
		time.Sleep(3*time.Second + Period)
		r.expect(t, "the master has told everything", "-master")
	})
}

// TestInterfaceWhileDown: daemons that a crash left on an interface that was made anew since are made anew.
func TestInterfaceWhileDown(t *testing.T) {
	var left []ipvs.Daemon
	for _, link := range []int{3, 7} {
		run(t, slices.Clone(left), false, func(t *testing.T, r *rig) {
			r.set(func() { r.link = link })
			if left != nil {
				if err := os.WriteFile(r.record, []byte(`{"Interface":"eth0","Index":3}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			r.Configure(config())
			want := "-backup +backup"
			if left == nil {
				want = "+backup"
			}
			r.expect(t, "start", want)
			b, err := os.ReadFile(r.record)
			if want := fmt.Sprintf(`{"Interface":"eth0","Index":%d}`, link); err != nil || string(b) != want {
				t.Errorf("the record is %s, %v; want %s", b, err, want)
			}
			left = r.daemons
		})
	}
	run(t, left, false, func(t *testing.T, r *rig) {
		if err := os.WriteFile(r.record, []byte(`{"Interface":"eth0","Index":3}`), 0o600); err != nil {
			t.Fatal(err)
		}
		r.Configure(config())
		r.expect(t, "the same interface", "")
	})
}

// TestOthers: what other programs did, or do meanwhile, is put right and said.
func TestOthers(t *testing.T) {
	theirs := []ipvs.Daemon{{Role: ipvs.SyncMaster, Interface: "eth1", ID: 9, MaxLen: 1472}}
	run(t, theirs, false, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.expect(t, "start", "+backup -master")
		if n := r.logged.FilterMessageSnippet("another program has left sync daemons").Len(); n != 1 {
			t.Errorf("it is said %d times: %v", n, r.logged.All())
		}
		if err := r.StopDaemon(ipvs.SyncBackup); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * Period)
		r.expect(t, "stopped by hand", "-backup +backup")
		if n := r.logged.FilterMessageSnippet("has started or stopped").Len(); n != 1 {
			t.Errorf("it is said %d times: %v", n, r.logged.All())
		}
	})
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.Lead(true)
		time.Sleep(time.Minute)
		r.Lead(false)
		time.Sleep(time.Minute)
		r.Configure(nil)
		r.Configure(config())
		time.Sleep(time.Minute)
		if r.logged.Len() != 0 {
			t.Errorf("what vipd does itself is told as of another: %v", r.logged.All())
		}
	})
}

// TestStuck: daemons that cannot be stopped are told of, and tried again.
func TestStuck(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.expect(t, "start", "+backup")
		r.set(func() { r.stay = unix.EPERM })
		r.Configure(nil)
		r.expect(t, "it stays", "")
		if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "operation not permitted") {
			t.Errorf("problems %q", p)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := r.logged.Len(); n != 1 {
			t.Errorf("%d lines in the log: %v", n, r.logged.All())
		}
		r.set(func() { r.stay = nil })
		time.Sleep(Period)
		r.expect(t, "no longer", "-backup")
		if p := r.Status().Problems; len(p) != 0 {
			t.Errorf("problems %q", p)
		}
	})
}

// TestDropped: messages that the kernel had no room for are counted, and spoken of for a minute, in one line.
func TestDropped(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.Configure(config())
		for range 5 {
			time.Sleep(HelloPeriod)
			r.set(func() { r.machine.drops += 7 })
		}
		time.Sleep(2 * HelloPeriod)
		synctest.Wait()
		if s := r.Status(); s.Dropped != 35 || len(s.Problems) != 1 {
			t.Errorf("%d dropped, problems %q", s.Dropped, s.Problems)
		}
		if n := r.logged.Len(); n != 1 {
			t.Errorf("%d lines in the log: %v", n, r.logged.All())
		}
		time.Sleep(rememberFor)
		synctest.Wait()
		if p := r.Status().Problems; len(p) != 0 {
			t.Errorf("problems %q", p)
		}
	})
}

// TestInterface: one that is not there is waited for; daemons on one that was made anew are made anew.
func TestInterface(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.set(func() { r.link = 0 })
		r.Configure(config())
		r.expect(t, "no interface", "")
		if p := r.Status().Problems; len(p) != 2 {
			t.Errorf("problems %q", p)
		}
		r.set(func() { r.link = 4 })
		time.Sleep(Period)
		r.expect(t, "it has come", "+backup")
		if p := r.Status().Problems; len(p) != 0 {
			t.Errorf("problems %q", p)
		}
		r.set(func() { r.link = 5 })
		time.Sleep(Period)
		r.expect(t, "it was made anew", "-backup +backup")
		r.set(func() { r.refuse = fmt.Errorf("mixed: %w", unix.EINVAL) })
		r.set(func() { r.link = 6 })
		time.Sleep(Period)
		r.expect(t, "refused", "-backup")
		if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "mixed") {
			t.Errorf("problems %q", p)
		}
	})
}

// TestHearing: a director that is expected and silent is told of, until it says hello.
func TestHearing(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.Configure(config())
		r.Expect(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "nothing is heard") {
			t.Errorf("problems %q", p)
		}
		if r.hellos < 12 || r.hellos > 16 {
			t.Errorf("%d hellos in a minute", r.hellos)
		}
		r.machine.ear(other, ipvs.SyncMessage{ID: 5})
		if p := r.Status().Problems; len(p) != 0 {
			t.Errorf("problems %q", p)
		}
		r.set(func() { r.sending = unix.ENETUNREACH })
		time.Sleep(HelloPeriod + Period)
		synctest.Wait()
		if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "ip route add") {
			t.Errorf("problems %q", p)
		}
	})
}

// TestPorts: every port that the kernel uses is listened to and told; a director that is heard on one of them alone is an
// alarm.
func TestPorts(t *testing.T) {
	run(t, nil, false, func(t *testing.T, r *rig) {
		r.set(func() { r.machine.ports, r.full = 3, 2 })
		r.Configure(config())
		r.expect(t, "start", "+backup")
		if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "cannot be listened to") || r.open != 0 {
			t.Errorf("without descriptors: %q, %d ports open", p, r.open)
		}
		r.set(func() { r.full = 0 })
		time.Sleep(Period)
		if synctest.Wait(); r.open != 3 || r.hellos != 3 {
			t.Errorf("%d ports open, %d hellos; want 3 of each", r.open, r.hellos)
		}
		for range 10 { // on the last one
			r.machine.ear(netip.MustParseAddr("10.9.0.2"), ipvs.SyncMessage{ID: 5})
			time.Sleep(HelloPeriod)
		}
		if p := r.Status().Problems; len(p) != 1 || !strings.Contains(p[0], "not on port 8848 of it") {
			t.Errorf("%q", p)
		}
	})
}

// TestRelease: a master in company tells the rest first, one alone does not wait, and a second signal ends the waiting.
func TestRelease(t *testing.T) {
	for _, c := range []struct {
		name    string
		company bool
		hurry   time.Duration // 0: none
		want    time.Duration
	}{{"alone", false, 0, 0}, {"in company", true, 0, 3 * time.Second}, {"in a hurry", true, time.Second, time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			run(t, nil, false, func(t *testing.T, r *rig) {
				r.Configure(config())
				r.Lead(true)
				synctest.Wait()
				if c.company {
					r.machine.ear(other, ipvs.SyncMessage{ID: 5})
				}
				r.Lead(false)
				hurry := make(chan struct{})
				if c.hurry > 0 {
					time.AfterFunc(c.hurry, func() { close(hurry) })
				}
				began := time.Now()
				if err := r.Release(t.Context(), hurry); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				synctest.Wait()
				if len(r.daemons) != 0 {
					t.Errorf("left: %v", r.daemons)
				}
			})
		})
	}
}
