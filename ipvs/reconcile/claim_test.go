package reconcile_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/reconcile"
)

// TestClaim: services of others go once, what is wanted is changed in place, what comes later is left alone; and a
// claim at the release takes all.
func TestClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := ipvstest.New()
		foreign := ipvstest.Services()[6]
		old := web()
		old.Scheduler = "sh"
		k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: foreign}, edit(ipvs.AddDestination, foreign, 1, 1),
			ipvs.Op{Kind: ipvs.AddService, Service: old}, edit(ipvs.AddDestination, old, 1, 1), edit(ipvs.AddDestination, old, 2, 1))
		r, _ := start(t, k, filepath.Join(t.TempDir(), "ipvs"))
		r.Claim()
		synctest.Wait()
		if got := ops(k); got != "" {
			t.Errorf("before it is known what is wanted: %s", got)
		}
		r.Set(table(web(), 1))
		synctest.Wait()
		if got, want := ops(k), "-E -t 10.9.0.100:80 -s wlc\n-d -t 10.9.0.100:80 -r 10.9.1.2:80\n-D -f 7\n"; got != want {
			t.Errorf("claimed:\n%swant\n%s", got, want)
		}
		k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: foreign})
		time.Sleep(time.Minute)
		if got := ops(k); got != "" {
			t.Errorf("a service that came later: %s", got)
		}
		r.Claim()
		if err := r.Release(t.Context()); err != nil {
			t.Error(err)
		}
		expect(t, k, "")
	})
}

// TestClaimAlone: it works without a wanted service too, and is no reason to complain of a kernel without IPVS.
func TestClaimAlone(t *testing.T) {
	for _, absent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := ipvstest.New()
			k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: web()})
			if absent {
				k.FailRead(ipvs.ErrAbsent)
			}
			core, logs := observer.New(zap.WarnLevel)
			r := reconcile.New(k, "", zap.New(core))
			run(t, r)
			r.Claim()
			r.Set(ipvs.Table{})
			time.Sleep(time.Minute)
			if reads, _ := k.Reads(); logs.Len() != 0 || reads == 0 || absent && reads > 3 {
				t.Errorf("absent %v: %d reads, log %v", absent, reads, logs.All())
			}
			if !absent {
				expect(t, k, "")
			}
			r.Claim()
			if err := r.Release(t.Context()); err != nil {
				t.Errorf("absent %v: %v", absent, err)
			}
		})
	}
}
