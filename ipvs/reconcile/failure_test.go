package reconcile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/reconcile"
)

// TestRetry: a refused change is tried again after 100 ms, doubling to 5 s, while others proceed; its twin succeeds at once.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		begin := time.Now()
		var tries []time.Duration
		k.Fail(func(op ipvs.Op) error {
			if op.Kind == ipvs.AddDestination && op.Destination.Address == ipvstest.Server(web(), 1, 0, 0).Address {
				tries = append(tries, time.Since(begin))
				return unix.ENOMEM
			}
			return nil
		})
		r, _ := start(t, k, "")
		r.Set(table(web(), 1, 1))
		synctest.Wait()
		expect(t, k, "-A -t 10.9.0.100:80 -s wlc\n-a -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 1\n")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		want := []int{0, 100, 300, 700, 1500, 3100, 6300, 11300, 16300, 21300, 26300}
		if len(tries) != len(want) {
			t.Fatalf("tries at %v", tries)
		}
		for i, ms := range want {
			if tries[i] != time.Duration(ms)*time.Millisecond {
				t.Fatalf("tries at %v, want ms %v", tries, want)
			}
		}
		target := ipvs.Target{Service: web().Key, Destination: ipvstest.Server(web(), 1, 0, 0).Address}
		if f := r.Status().Failures[target]; !errors.Is(f.Err, unix.ENOMEM) || f.Attempts != len(want) {
			t.Errorf("failure %+v", f)
		}
		if s := r.Status(); s.InSync() || s.Pending != 1 || s.Repairs != 0 {
			t.Errorf("status %+v", s)
		}
		// A wanted table that changes the refused server is tried at once.
		k.Fail(nil)
		r.Set(table(web(), 2, 1))
		synctest.Wait()
		if s := r.Status(); !s.InSync() || len(s.Failures) != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestUnknownScheduler: the service cannot be made, its servers are not tried, others live.
func TestUnknownScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		core, logs := observer.New(zap.ErrorLevel)
		r := reconcile.New(k, "", zap.New(core))
		run(t, r)
		bad := web()
		bad.Scheduler = "twos"
		want := table(bad, 1)
		want[other().Key] = table(other(), 1)[other().Key]
		r.Set(want)
		time.Sleep(time.Hour)
		expect(t, k, "-A -t [2001:db8::100]:80 -s wlc\n-a -t [2001:db8::100]:80 -r [2001:db8::1]:80 -g -w 1\n")
		f := r.Status().Failures
		if len(f) != 1 || !errors.Is(f[ipvs.Target{Service: web().Key}].Err, unix.ENOENT) {
			t.Errorf("failures %+v", f)
		}
		if n := logs.Len(); n < 1 || n > 12 {
			t.Errorf("%d lines in the log for one lasting error in an hour", n)
		}
		r.Set(table(web(), 1))
		synctest.Wait()
		expect(t, k, "-A -t 10.9.0.100:80 -s wlc\n-a -t 10.9.0.100:80 -r 10.9.1.1:80 -g -w 1\n")
	})
}

// TestNeverEmptied: when the replacement cannot be added, the last usable server stays, and the reason is shown.
func TestNeverEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		r, _ := start(t, k, "")
		r.Set(table(web(), 1, 1))
		synctest.Wait()
		k.Fail(func(op ipvs.Op) error {
			if op.Kind == ipvs.AddDestination {
				return unix.ENOMEM
			}
			return nil
		})
		k.TakeLog()
		r.Set(table(web(), -1, -1, 1))
		time.Sleep(10 * time.Second)
		if strings.Contains(ops(k), "-d ") {
			t.Fatalf("servers were removed:\n%s", k)
		}
		held := ipvs.Target{Service: web().Key, Destination: ipvstest.Server(web(), 2, 0, 0).Address}
		if f := r.Status().Failures[held]; f.Err == nil || !strings.Contains(f.Err.Error(), "kept in the pool") {
			t.Errorf("failure %+v", f)
		}
		k.Fail(nil)
		time.Sleep(5 * time.Second)
		expect(t, k, "-A -t 10.9.0.100:80 -s wlc\n-a -t 10.9.0.100:80 -r 10.9.1.3:80 -g -w 1\n")
		// The twin: with an empty pool wanted, nothing is held back.
		r.Set(table(web()))
		synctest.Wait()
		expect(t, k, "-A -t 10.9.0.100:80 -s wlc\n")
	})
}

// TestNoIPVS: a kernel without IPVS is an error that is shown and tried again, and heals by itself.
func TestNoIPVS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		k.FailRead(errors.New("this kernel has no IPVS"))
		core, logs := observer.New(zap.InfoLevel)
		r := reconcile.New(k, "", zap.New(core))
		run(t, r)
		r.Set(table(web(), 1))
		time.Sleep(time.Minute)
		if s := r.Status(); s.Err == nil || !strings.Contains(s.Err.Error(), "no IPVS") || s.InSync() {
			t.Errorf("status %+v", s)
		}
		if logs.Len() != 1 {
			t.Errorf("%d lines in the log, want one: %v", logs.Len(), logs.All())
		}
		if reads, _ := k.Reads(); reads < 12 || reads > 25 {
			t.Errorf("%d reads in a minute, want one every few seconds", reads)
		}
		k.FailRead(nil)
		time.Sleep(5 * time.Second)
		if s := r.Status(); !s.InSync() {
			t.Errorf("status %+v", s)
		}
	})
}

// TestIdle: with nothing to do for IPVS its absence is nobody's business, not at the end either.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		k.FailRead(ipvs.ErrAbsent)
		core, logs := observer.New(zap.InfoLevel)
		r := reconcile.New(k, "", zap.New(core))
		run(t, r)
		r.Set(ipvs.Table{})
		time.Sleep(time.Minute)
		if reads, _ := k.Reads(); reads != 0 || logs.Len() != 0 {
			t.Errorf("%d reads, log %v", reads, logs.All())
		}
		r.Set(table(web(), 1)) // and as soon as a service is wanted it is
		time.Sleep(time.Second)
		if s := r.Status(); s.Err == nil {
			t.Error("a service is wanted, and the absence of IPVS is not shown")
		}
		if err := r.Release(t.Context()); err != nil {
			t.Errorf("releasing without IPVS: %v", err)
		}
	})
}

func TestReleaseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		r, _ := start(t, k, "")
		r.Set(table(web(), 1))
		synctest.Wait()
		k.Fail(func(ipvs.Op) error { return unix.EBUSY })
		begin := time.Now()
		err := r.Release(t.Context())
		if !errors.Is(err, unix.EBUSY) || strings.Count(err.Error(), "tcp 10.9.0.100:80") != 1 || time.Since(begin) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		k.Fail(nil)
	})
}

// hung is a kernel that does not answer until it is let go.
type hung struct {
	*ipvstest.Kernel
	free chan struct{}
}

func (h hung) Apply(ops []ipvs.Op) []error { <-h.free; return h.Kernel.Apply(ops) }

// TestSetNeverBlocks, not even while the kernel hangs; the latest table wins; Release is bounded by its context.
func TestSetNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := hung{ipvstest.New(), make(chan struct{})}
		r, _ := start(t, k, "")
		r.Set(table(web(), 1))
		synctest.Wait()
		begin := time.Now()
		for w := range 1000 {
			r.Set(table(web(), w))
		}
		_ = r.Status()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		close(k.free)
		synctest.Wait()
		expect(t, k.Kernel, "-A -t 10.9.0.100:80 -s wlc\n-a -t 10.9.0.100:80 -r 10.9.1.1:80 -g -w 999\n")
		if n := strings.Count(ops(k.Kernel), "\n"); n != 3 {
			t.Errorf("%d operations, want 3: only the first and the last table", n)
		}
	})
}

// TestDamagedRecord: a damaged line is passed over, the others count.
func TestDamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, file := ipvstest.New(), filepath.Join(t.TempDir(), "ipvs")
		k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: web()}, ipvs.Op{Kind: ipvs.AddService, Service: other()})
		if err := os.WriteFile(file, []byte("# comment\ntcp 10.9.0.100:80\ntcp [2001:db8::100\n\x00\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, _ := start(t, k, file)
		r.Set(ipvs.Table{})
		synctest.Wait()
		expect(t, k, "-A -t [2001:db8::100]:80 -s wlc\n")
	})
}

// TestRecordFails: without a place for the record everything else works, and the status says so until there is one.
func TestRecordFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		record := filepath.Join(file, "no directory", "ipvs")
		r, _ := start(t, k, record)
		r.Set(table(web(), 1))
		synctest.Wait()
		if s := r.Status(); !s.InSync() || s.RecordErr == nil {
			t.Errorf("status %+v", s)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(reconcile.FullReadPeriod + reconcile.CheckPeriod)
		if s := r.Status(); s.RecordErr != nil {
			t.Errorf("with a place for it: %v", s.RecordErr)
		}
		if b, err := os.ReadFile(record); err != nil || !strings.Contains(string(b), web().Key.String()) {
			t.Errorf("the record: %q, %v", b, err)
		}
	})
}

// lying is a kernel that makes changes but whose answers are lost.
type lying struct {
	*ipvstest.Kernel
	lost *bool
}

func (l lying) Apply(ops []ipvs.Op) []error {
	errs := l.Kernel.Apply(ops)
	for i := range errs {
		if *l.lost {
			errs[i] = os.ErrDeadlineExceeded
		}
	}
	return errs
}

// TestAnswerLost: a service that was made although its answer was lost stays ours until a read shows that it is not
// there, even when the kernel cannot be read for a while.
func TestAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := false
		k := lying{ipvstest.New(), &lost}
		r, _ := start(t, k, "")
		r.Set(table(other(), 1))
		synctest.Wait()
		lost = true
		k.FailRead(errors.New("unreadable"))
		r.Set(table(web(), 1))
		synctest.Wait()
		if !strings.Contains(k.String(), web().Address.String()) {
			t.Fatalf("the service was not made: the kernel has\n%s", k.String())
		}
		r.Set(ipvs.Table{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		lost = false
		k.FailRead(nil)
		time.Sleep(10 * time.Second)
		expect(t, k.Kernel, "")
	})
}
