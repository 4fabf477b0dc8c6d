package reconcile_test

import (
	"context"
	"net/netip"
	"testing"

	"go.uber.org/zap"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/reconcile"
)

func BenchmarkOneChangeIn10000(b *testing.B) {
	k := ipvstest.New()
	base := ipvs.Table{}
	for i := range 100 {
		s := ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), 80)), Scheduler: "wlc"}
		base.AddService(s)
		for n := range 100 {
			base.AddDestination(s.Key, ipvstest.Server(s.Normal(), n+1, ipvs.DR, 1))
		}
	}
	acknowledged := make(chan int, 20000)
	k.Observe(func(op ipvs.Op, _ error, _, _ ipvs.Pool) { acknowledged <- op.Destination.Weight })
	r := reconcile.New(k, "", zap.NewNop())
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.Set(base)
	for range 100 + 10000 {
		<-acknowledged
	}
	key := base.Keys()[50]
	d := ipvstest.Server(base[key].Service, 50, ipvs.DR, 1)
	for b.Loop() {
		d.Weight = 3 - d.Weight
		next := base.Clone()
		next.AddDestination(key, d)
		r.Set(next)
		if w := <-acknowledged; w != d.Weight {
			b.Fatalf("weight %d, want %d", w, d.Weight)
		}
	}
	cancel()
	<-done
}
