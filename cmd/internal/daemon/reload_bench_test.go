package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck/run"
	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/reconcile"
)

// farmText is 500 services of 20 servers with a TCP_CHECK each; the first server of the last service has a weight of
// its own.
func farmText(weight int) string {
	var b strings.Builder
	b.WriteString("[global_defs]\nrouter_id = \"bench\"\n")
	for s := range 500 {
		vip := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 20, byte(s / 250), byte(1 + s%250)}), 80)
		fmt.Fprintf(&b, "[[virtual_server]]\naddress = %q\nlvs_sched = \"wrr\"\nlvs_method = \"NAT\"\ndelay_loop = \"1m0s\"\nconnect_timeout = \"5s\"\n[virtual_server.TCP_CHECK]\n", vip)
		for n := s * 20; n < (s+1)*20; n++ {
			w := 1
			if n == 499*20 {
				w = weight
			}
			fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = %q\nweight = %d\n",
				netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 32, byte(n / 250), byte(1 + n%250)}), 80), w)
		}
	}
	return b.String()
}

// BenchmarkReload10000: one changed weight among 10,000 servers, from the files to the acknowledged change.
func BenchmarkReload10000(b *testing.B) {
	k := ipvstest.New()
	acknowledged := make(chan int, 20000)
	k.Observe(func(op ipvs.Op, _ error, _, _ ipvs.Pool) { acknowledged <- op.Destination.Weight })
	table := reconcile.New(k, "", zap.NewNop())
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	balance := newBalancer(run.New(run.Options{}), table, func(string) {}, zap.NewNop())
	file, texts := filepath.Join(b.TempDir(), "vipd.toml"), [2][]byte{[]byte(farmText(2)), []byte(farmText(1))}
	write := func(i int) {
		if err := os.WriteFile(file, texts[i], 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write(0)
	var loader conf.Loader
	now, diags := Load(&loader, file)
	if now == nil {
		b.Fatal(diags)
	}
	if err := balance.Configure(now.VirtualServers); err != nil {
		b.Fatal(err)
	}
	for range 500 + 10000 {
		<-acknowledged
	}
	i := 0
	var phases [4]time.Duration
	at := time.Now()
	lap := func(n int) {
		phases[n] += time.Since(at)
		at = time.Now()
	}
	for b.Loop() {
		i++
		b.StopTimer()
		write(i % 2)
		b.StartTimer()
		at = time.Now()
		next, diags := Load(&loader, file)
		if next == nil {
			b.Fatal(diags)
		}
		lap(0)
		if n := len(conf.Diff(now, next)); n != 1 {
			b.Fatalf("%d changes", n)
		}
		lap(1)
		if err := balance.Configure(next.VirtualServers); err != nil {
			b.Fatal(err)
		}
		lap(2)
		if w := <-acknowledged; w != 2-i%2 {
			b.Fatalf("weight %d", w)
		}
		lap(3)
		now = next
	}
	for n, name := range []string{"load", "diff", "configure", "told"} {
		b.ReportMetric(float64(phases[n].Milliseconds())/float64(b.N), name+"-ms")
	}
	cancel()
	<-done
}

func BenchmarkLoad10000(b *testing.B) {
	file := filepath.Join(b.TempDir(), "vipd.toml")
	if err := os.WriteFile(file, []byte(farmText(1)), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if cfg, diags := Load(&conf.Loader{}, file); cfg == nil {
			b.Fatal(diags)
		}
	}
}
