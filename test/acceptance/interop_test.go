package acceptance

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// A mixed pair, vipd and Debian's keepalived, in either role: start, link cut,
// return, clean stop, restart, crash. One master at any time outside the
// protocol's own window, and a peer that never complains.
func TestInteropWithKeepalived(t *testing.T) {
	cases := []struct {
		name string
		inst lab.Instance
		vip  netip.Addr
	}{
		{"v2", lab.Instance{Version: 2, Interval: time.Second}, lab.VIP()},
		{"v2-PASS", lab.Instance{Version: 2, Interval: time.Second, AuthPass: "vecpass"}, lab.VIP()},
		{"v3-IPv4", lab.Instance{Version: 3, Interval: 200 * time.Millisecond}, lab.VIP()},
		{"v3-IPv6", lab.Instance{Version: 3, Interval: 200 * time.Millisecond}, lab.VIP6()},
	}
	for _, c := range cases {
		for _, better := range []string{"vipd", "keepalived"} {
			t.Run(fmt.Sprintf("%s/%s-preferred", c.name, better), func(t *testing.T) {
				t.Parallel()
				i := c.inst
				i.VIPs = []netip.Addr{c.vip}
				if c.vip.Is6() {
					i.VIPs = []netip.Addr{netip.MustParseAddr("fe80::100"), c.vip}
				}
				mixedPair(t, i, c.vip, better == "vipd")
			})
		}
	}
}

// peer is one director of the pair, whatever it runs.
type peer struct {
	node  *lab.Node
	start func()
	proc  func() *lab.Process
}

func mixedPair(t *testing.T, i lab.Instance, vip netip.Addr, vipdPreferred bool) {
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2 := l.Node("d1"), l.Node("d2")
	hi, lo := i, i
	hi.Priority, lo.Priority = 200, 100
	var keepalivedLog func() string
	make := func(n *lab.Node, inst lab.Instance, vipd bool) *peer {
		p := &peer{node: n}
		var last *lab.Process
		p.start = func() {
			if vipd {
				last = n.Vipd(lab.VipdConf("", inst)).Process
				return
			}
			last = n.Keepalived(lab.KeepalivedConf("", inst))
			keepalivedLog = last.Log
		}
		p.proc = func() *lab.Process { return last }
		return p
	}
	best, other := make(d1, hi, vipdPreferred), make(d2, lo, !vipdPreferred)

	// The longest that a takeover and its addresses may take.
	window := 4*i.Interval + time.Second
	if i.Version == 3 {
		window = 4*i.Interval + 500*time.Millisecond
	}
	limit := window + 5*time.Second
	settle := func() { time.Sleep(3 * i.Interval) }
	best.start()
	l.WaitOwner(vip, limit, "d1")
	other.start()
	time.Sleep(window + i.Interval)
	owners := l.WatchOwners(vip, 5*time.Millisecond)
	settle()

	step := func(what string, fn func(), want string) {
		t.Helper()
		fn()
		l.WaitOwner(vip, limit, want)
		settle()
		if got := l.Owners(vip); len(got) != 1 || got[0] != want {
			t.Fatalf("%s: owned by %v after settling, want %s", what, got, want)
		}
	}
	step("clean stop of the master", func() { best.proc().Stop(5 * time.Second) }, "d2")
	step("its return", best.start, "d1")
	step("clean stop of the backup", func() { other.proc().Stop(5 * time.Second) }, "d1")
	step("its return", func() { other.start(); time.Sleep(window) }, "d1")
	twice, none := owners.Longest(2), owners.Longest(0)
	owners.Stop()

	// While the link is cut both have it: neither can know of the other.
	d1.Isolate(0)
	l.WaitOwner(vip, limit, "d1", "d2")
	healed := d1.Rejoin(0)
	l.WaitOwner(vip, limit, "d1")
	if took := time.Since(healed); took > i.Interval+500*time.Millisecond {
		t.Errorf("two owners for %v after the link healed", took)
	}
	settle()
	// A crash leaves the address; the restarted daemon removes or keeps it.
	best.proc().Kill()
	l.WaitOwner(vip, limit, "d1", "d2")
	best.start()
	l.WaitOwner(vip, limit, "d1")
	settle()
	if got := l.Owners(vip); len(got) != 1 || got[0] != "d1" {
		t.Errorf("after a crash and a restart owned by %v", got)
	}

	if twice > i.Interval {
		t.Errorf("two owners for %v, want at most an interval", twice)
	}
	if none > window {
		t.Errorf("no owner for %v, want at most %v", none, window)
	}
	for line := range strings.Lines(keepalivedLog()) {
		low := strings.ToLower(line)
		if strings.Contains(low, "invalid") || strings.Contains(low, "bogus") || strings.Contains(low, "dropp") || strings.Contains(low, "mismatch") {
			t.Errorf("keepalived complains: %s", line)
		}
	}
	t.Logf("two owners for at most %v, none for at most %v", twice, none)
}
