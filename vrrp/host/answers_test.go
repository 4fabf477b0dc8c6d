package host_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// TestPresentMeansThatItAnswers: an IPv6 address is told when the kernel takes packets to it, which is some time after
// it was added.
func TestPresentMeansThatItAnswers(t *testing.T) {
	b := eth0(t)
	vips := []string{"2001:db8::100/128", "2001:db8::101/128", "10.9.0.100/32", "2001:db8::102/64", "2001:db8::103/128"}
	k := newReal(t).Netlink
	told := make(chan string, 100)
	var began time.Time
	m := host.NewManager(k, k, "", host.Callbacks{Present: func(_ string, a host.Address, _ *host.Link) {
		took := time.Since(began)
		if r, err := netlink.RouteGet(a.Prefix.Addr().AsSlice()); (err != nil || len(r) != 1 || r[0].Type != unix.RTN_LOCAL) && took < 100*time.Millisecond {
			t.Errorf("%s is told after %v, and packets to it go elsewhere: %v, %v", a.Prefix, took, r, err)
		}
		told <- a.Prefix.String()
	}}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = m.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	m.Configure([]host.Set{set("A", vips...)})
	for range 50 {
		began = time.Now()
		m.Want("A", true)
		var got []string
		for range vips {
			got = append(got, <-told)
		}
		slices.Sort(got)
		expect(t, strings.Join(got, "\n"), strings.Join(slices.Sorted(slices.Values(vips)), "\n"))
		m.Want("A", false)
		eventually(t, "all are gone", func() bool { return dump(t, b, "eth0") == "10.9.0.11/24 dev eth0" })
	}
}

// TestAddressThatDoesNotAnswer is told in the end, unless it is unwanted or gone by then; the others do not wait for it.
func TestAddressThatDoesNotAnswer(t *testing.T) {
	const six, four = "2001:db8::100/128", "10.9.0.100/32"
	for name, c := range map[string]struct {
		then func(m *host.Manager, answers *atomic.Bool)
		told bool
	}{
		"never":           {func(*host.Manager, *atomic.Bool) {}, true},
		"soon":            {func(_ *host.Manager, answers *atomic.Bool) { answers.Store(true) }, true},
		"unwanted":        {func(m *host.Manager, _ *atomic.Bool) { m.Want("A", false) }, false},
		"wanted again":    {func(m *host.Manager, _ *atomic.Bool) { m.Want("A", false); m.Want("A", true) }, true},
		"of another name": {func(m *host.Manager, _ *atomic.Bool) { m.Configure([]host.Set{set("B", six)}) }, false},
		"another one":     {func(m *host.Manager, _ *atomic.Bool) { m.Configure([]host.Set{set("A", "2001:db8::101/128")}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := hosttest.New()
			k.NewLink("eth0")
			must(t, k.Add("eth0", foreign("10.9.0.11/24")))
			j := &journal{}
			var answers atomic.Bool
			m := host.NewManager(&host.Answering{Kernel: k, Local: func(int, netip.Addr) bool { return answers.Load() }}, k, "", j.callbacks(), nil)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() { _ = m.Run(ctx) })
			defer wg.Wait()
			defer cancel()
			m.Configure([]host.Set{set("A", six, four)})
			m.Want("A", true)
			began := time.Now()
			eventually(t, "the other one is told", func() bool { return !j.when("present A " + four).IsZero() })
			c.then(m, &answers)
			time.Sleep(300 * time.Millisecond)
			at := j.when("present A " + six)
			if at.IsZero() == c.told || c.told && at.Sub(began) < 100*time.Millisecond && !answers.Load() {
				t.Errorf("told after %v:\n%s", at.Sub(began), j.take())
			}
		})
	}
}
