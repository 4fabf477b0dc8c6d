package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/reconcile"
)

// start runs a reconciler until the test, or the returned function, ends it.
func start(t *testing.T, k reconcile.Kernel, file string) (*reconcile.Reconciler, func()) {
	t.Helper()
	r := reconcile.New(k, file, zap.NewNop())
	return r, run(t, r)
}

func run(t *testing.T, r *reconcile.Reconciler) func() {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func web() ipvs.Service   { return ipvstest.Services()[0] }
func other() ipvs.Service { return ipvstest.Services()[3] }

// table makes a service with servers of the given weights; -1 leaves one out.
func table(s ipvs.Service, weights ...int) ipvs.Table {
	t := ipvs.Table{}
	t.AddService(s)
	for i, w := range weights {
		if w >= 0 {
			t.AddDestination(s.Key, ipvstest.Server(s, i+1, ipvs.DR, w))
		}
	}
	return t
}

func edit(kind ipvs.OpKind, s ipvs.Service, n, weight int) ipvs.Op {
	return ipvs.Op{Kind: kind, Service: s, Destination: ipvstest.Server(s, n, ipvs.DR, weight)}
}

func expect(t *testing.T, k *ipvstest.Kernel, want string) {
	t.Helper()
	if got := k.String(); got != want {
		t.Fatalf("the kernel has\n%swant\n%s", got, want)
	}
}

func ops(k *ipvstest.Kernel) string {
	var b strings.Builder
	for _, e := range k.TakeLog() {
		b.WriteString(strings.TrimPrefix(e.Op.String(), "ipvsadm "))
		if e.Err != nil {
			fmt.Fprintf(&b, ": %v", e.Err)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestSetDoesWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		r, _ := start(t, k, "")
		r.Set(table(web(), 1, 1))
		synctest.Wait()
		expect(t, k, "-A -t 10.9.0.100:80 -s wlc\n-a -t 10.9.0.100:80 -r 10.9.1.1:80 -g -w 1\n-a -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 1\n")
		k.TakeLog()

		r.Set(table(web(), 1, 1))
		synctest.Wait()
		if got := ops(k); got != "" {
			t.Errorf("the same table again: %s", got)
		}
		r.Set(table(web(), 1, 3))
		synctest.Wait()
		if got := ops(k); got != "-e -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 3\n" {
			t.Errorf("one weight: %s", got)
		}
		r.Set(table(other(), 1))
		synctest.Wait()
		if got := ops(k); got != "-A -t [2001:db8::100]:80 -s wlc\n-a -t [2001:db8::100]:80 -r [2001:db8::1]:80 -g -w 1\n-D -t 10.9.0.100:80\n" {
			t.Errorf("another service: %s", got)
		}
		if s := r.Status(); !s.InSync() || s.Repairs != 0 || len(s.Failures) != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestNothingBeforeSet: what a predecessor left serves on until it is known what is wanted.
func TestNothingBeforeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, file := ipvstest.New(), filepath.Join(t.TempDir(), "ipvs")
		r, stop := start(t, k, file)
		r.Set(table(web(), 1))
		synctest.Wait()
		stop()
		k.TakeLog()
		_, stop = start(t, k, file)
		time.Sleep(time.Minute)
		if got := ops(k); got != "" {
			t.Errorf("without a wanted table: %s", got)
		}
		stop()
	})
}

// TestRestart: a crash leaves the table; the successor corrects what is wanted in place, deletes what no longer is, and
// leaves alone what was never ours.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, file := ipvstest.New(), filepath.Join(t.TempDir(), "ipvs")
		foreign := ipvstest.Services()[6]
		k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: foreign}, edit(ipvs.AddDestination, foreign, 1, 1))
		r, stop := start(t, k, file)
		both := table(web(), 1, 1)
		both[other().Key] = table(other(), 1)[other().Key]
		r.Set(both)
		synctest.Wait()
		stop()
		k.TakeLog()

		changed := web()
		changed.Scheduler, changed.Persistence = "rr", time.Minute
		r, stop = start(t, k, file)
		r.Set(table(changed, 1, -1, 5))
		synctest.Wait()
		if got, want := ops(k), "-E -t 10.9.0.100:80 -s rr -p 60\n-a -t 10.9.0.100:80 -r 10.9.1.3:80 -g -w 5\n"+
			"-d -t 10.9.0.100:80 -r 10.9.1.2:80\n-D -t [2001:db8::100]:80\n"; got != want {
			t.Errorf("after a restart\n%swant\n%s", got, want)
		}
		stop()
		expect(t, k, "-A -t 10.9.0.100:80 -s rr -p 60\n-a -t 10.9.0.100:80 -r 10.9.1.1:80 -g -w 1\n-a -t 10.9.0.100:80 -r 10.9.1.3:80 -g -w 5\n"+
			"-A -f 7 -s rr\n-a -f 7 -r 10.9.1.1:0 -g -w 1\n")

		// Without the record the leftover is a stranger's: losing the file does no other harm.
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		r, stop = start(t, k, file)
		r.Set(ipvs.Table{})
		synctest.Wait()
		if got := ops(k); got != "" {
			t.Errorf("without the record: %s", got)
		}
		stop()
	})
}

// TestO37Repair: what others do to our services is put right within 5 s; a new foreign service stays.
func TestO37Repair(t *testing.T) {
	for name, harm := range map[string]func(k *ipvstest.Kernel){
		"flush":           func(k *ipvstest.Kernel) { k.Flush() },
		"weight":          func(k *ipvstest.Kernel) { k.Edit(edit(ipvs.EditDestination, web(), 1, 9)) },
		"server removed":  func(k *ipvstest.Kernel) { k.Edit(edit(ipvs.DelDestination, web(), 1, 0)) },
		"server added":    func(k *ipvstest.Kernel) { k.Edit(edit(ipvs.AddDestination, web(), 7, 1)) },
		"service removed": func(k *ipvstest.Kernel) { k.Edit(ipvs.Op{Kind: ipvs.DelService, Service: web()}) },
		"scheduler": func(k *ipvstest.Kernel) {
			s := web()
			s.Scheduler = "sh"
			k.Edit(ipvs.Op{Kind: ipvs.EditService, Service: s})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := ipvstest.New()
				r, _ := start(t, k, "")
				r.Set(table(web(), 1, 1))
				synctest.Wait()
				right := k.String()
				time.Sleep(time.Minute + 700*time.Millisecond)
				k.TakeLog()
				harm(k)
				foreign := ipvs.Op{Kind: ipvs.AddService, Service: other()}
				k.Edit(foreign)
				time.Sleep(5 * time.Second)
				expect(t, k, right+"-A -t [2001:db8::100]:80 -s wlc\n")
				if s := r.Status(); s.Repairs == 0 || !s.InSync() {
					t.Errorf("status %+v", s)
				}
				for _, e := range k.TakeLog() {
					if e.Op.Service.Key == other().Key {
						t.Errorf("%s touches a foreign service", e.Op)
					}
				}
			})
		})
	}
}

// TestO37RepairAtOnce: after Reread, as a reload calls it, nothing waits for the next look.
func TestO37RepairAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		r, _ := start(t, k, "")
		r.Set(table(web(), 1, 1))
		synctest.Wait()
		right := k.String()
		time.Sleep(300 * time.Millisecond)
		k.Flush()
		r.Set(table(web(), 1, 1)) // as wanted as before: no reason to look
		time.Sleep(10 * time.Millisecond)
		expect(t, k, "")
		r.Reread()
		time.Sleep(10 * time.Millisecond)
		expect(t, k, right)
		if reads, _ := k.Reads(); reads > 3 {
			t.Errorf("%d complete reads", reads)
		}
	})
}

// TestAdoptOnReload: a service that is in the kernel already and becomes wanted is corrected in place.
func TestAdoptOnReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: other()}, edit(ipvs.AddDestination, other(), 1, 4))
		r, _ := start(t, k, "")
		r.Set(table(web(), 1))
		synctest.Wait()
		k.TakeLog()
		want := table(web(), 1)
		want[other().Key] = table(other(), 1)[other().Key]
		r.Set(want)
		synctest.Wait()
		if got := ops(k); got != "-e -t [2001:db8::100]:80 -r [2001:db8::1]:80 -g -w 1\n" {
			t.Errorf("got %s", got)
		}
		if s := r.Status(); s.Repairs != 0 || !s.InSync() {
			t.Errorf("status %+v", s)
		}
	})
}

func TestRefreshHasCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		r, stop := start(t, k, "")
		r.Set(table(web(), 1))
		synctest.Wait()
		target := ipvs.Target{Service: web().Key, Destination: ipvstest.Server(web(), 1, 0, 0).Address}
		k.SetConnections(target, ipvs.Connections{Active: 3, Inactive: 2})
		s, err := r.Refresh(t.Context())
		if err != nil || s.Kernel.Connections[target].Active != 3 {
			t.Errorf("%v, %+v", err, s)
		}
		k.FailRead(errors.New("broken"))
		if s, err := r.Refresh(t.Context()); err == nil || s.Kernel.Connections[target].Active != 3 {
			t.Errorf("%v, %+v", err, s)
		}
		stop()
		if _, err := r.Refresh(t.Context()); err == nil {
			t.Error("no error after the end")
		}
	})
}

// TestSettle: it returns when the last table is in the kernel, without reading that again, or was tried in vain.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		r, stop := start(t, k, "")
		r.Set(table(web(), 1))
		synctest.Wait()
		reads, _ := k.Reads()
		for w := range 50 {
			r.Set(table(web(), w+2))
			if err := r.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := k.Table(); !got.Equal(table(web(), w+2)) {
				t.Fatalf("settled with\n%s", got)
			}
		}
		if now, _ := k.Reads(); now != reads {
			t.Errorf("the kernel was read %d times", now-reads)
		}
		k.Fail(func(ipvs.Op) error { return unix.ENOMEM })
		r.Set(table(web(), 1))
		if err := r.Settle(t.Context()); err != nil || r.Status().InSync() {
			t.Errorf("with a kernel that refuses: %v, in sync %v", err, r.Status().InSync())
		}
		stop()
		if err := r.Settle(t.Context()); err == nil {
			t.Error("no error after the end")
		}
	})
}

// TestRelease deletes what is ours and nothing else, while Run runs and after it; a Set that comes later does nothing.
func TestRelease(t *testing.T) {
	for _, running := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			k, file := ipvstest.New(), filepath.Join(t.TempDir(), "ipvs")
			k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: other()})
			r, stop := start(t, k, file)
			r.Set(table(web(), 1))
			synctest.Wait()
			if !running {
				stop()
			}
			if err := r.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			expect(t, k, "-A -t [2001:db8::100]:80 -s wlc\n")
			r.Set(table(web(), 1))
			time.Sleep(time.Minute)
			expect(t, k, "-A -t [2001:db8::100]:80 -s wlc\n")
			if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "tcp") {
				t.Errorf("record after the release: %s, %v", b, err)
			}
		})
	}
}

// orderly notes the order of calls.
type orderly struct {
	*ipvstest.Kernel
	calls []string
}

func (k *orderly) Read() (ipvs.Snapshot, error) {
	k.calls = append(k.calls, "read")
	return k.Kernel.Read()
}

func (k *orderly) Apply(ops []ipvs.Op) []error {
	k.calls = append(k.calls, fmt.Sprintf("apply %d", len(ops)))
	return k.Kernel.Apply(ops)
}

// TestReloadFirst: what a reload changes reaches the kernel in one call, before the table is read
// again; what others changed is put right after that.
func TestReloadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &orderly{Kernel: ipvstest.New()}
		r, stop := start(t, k, "")
		r.Set(table(web(), 1, 1))
		synctest.Wait()
		k.calls = nil
		r.Set(table(web(), 1, 7))
		r.Reread()
		synctest.Wait()
		if got := strings.Join(k.calls, ", "); got != "apply 1, read" {
			t.Errorf("the kernel was asked: %s", got)
		}
		k.calls = nil
		k.Kernel.Apply([]ipvs.Op{edit(ipvs.EditDestination, web(), 2, 3)})
		r.Set(table(web(), 2, 7))
		r.Reread()
		synctest.Wait()
		if got := strings.Join(k.calls, ", "); got != "apply 1, read, apply 1" {
			t.Errorf("the kernel was asked: %s", got)
		}
		if got, _ := k.Kernel.Read(); got.Table[web().Key].Destinations[ipvstest.Server(web(), 2, ipvs.DR, 7).Address].Weight != 7 {
			t.Errorf("the kernel has\n%s", k.Kernel)
		}
		stop()
	})
}
