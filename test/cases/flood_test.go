package cases

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"vipd/test/lab"
)

// O16: on backups the kernel's queues fill on sockets that nobody reads, and over
// hours the machine runs out of memory.
//
// Claim: with 10 groups and 5,000 packets a second of every kind, each queue stays
// near empty, memory is flat, the state does not change, and the take-over after
// the flood is on time. (30 s; five minutes with VIPD_LONG=1.)
func TestO16FloodOfAdverts(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2 := l.Node("d1"), l.Node("d2")
	x := l.AddHost("x", 50)
	seen := l.Node("cl").CaptureOn("eth0", lab.Except(x)...)
	conf := func(prio int) string { return lab.VipdConf("", tenGroups(prio)...) }
	d1.Vipd(conf(200))
	last := tenGroups(200)[9]
	l.WaitOwner(last.VIPs[len(last.VIPs)-1], 10*time.Second, "d1")
	v2 := d2.Vipd(conf(100))
	for _, i := range tenGroups(100) {
		v2.WaitState(i.Name, "BACKUP", 10*time.Second)
	}
	if n := len(v2.RawQueues()); n != 2 {
		t.Errorf("%d raw sockets for 10 groups on one interface, want one a family", n)
	}

	from := time.Now()
	flood := x.Flood(5000, junk(x, d2)...)
	length := 30 * time.Second
	if os.Getenv("VIPD_LONG") == "1" {
		length = 5 * time.Minute
	}
	const warm = 5 * time.Second
	time.Sleep(warm)
	before := v2.Memory()
	var unread []int64
	for end := from.Add(length); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, q := range v2.RawQueues() {
			unread = append(unread, q.Unread)
		}
	}
	after := v2.Memory()
	sent := flood.Stop()
	slices.Sort(unread)
	median, high := unread[len(unread)/2], unread[len(unread)*99/100]
	var dropped int64
	for _, q := range v2.RawQueues() {
		dropped += q.Dropped
	}
	t.Logf("%d packets in %v; unread bytes: median %d, 99%% %d, most %d; %d dropped; memory %d -> %d KiB",
		sent, length, median, high, unread[len(unread)-1], dropped, before>>10, after>>10)
	if want := int(length.Seconds()) * 5000; sent < want*9/10 {
		t.Errorf("only %d of %d packets sent", sent, want)
	}
	if median > 64<<10 || high > 512<<10 {
		t.Errorf("receive queues are not read: median %d bytes, 99%% %d", median, high)
	}
	if after > before+before/10+2<<20 {
		t.Errorf("memory grew from %d to %d KiB", before>>10, after>>10)
	}
	for _, i := range tenGroups(0) {
		src1, src2 := d1.Addr(), d2.Addr()
		if i.VIPs[0].Is6() {
			src1, src2 = d1.LinkLocal(), d2.LinkLocal()
		}
		steady(t, seen, i.VRID, src1, 200, time.Second, from)
		silent(t, seen, i.VRID, src2, from)
	}
	l.Eventually(2*time.Second, "all queues are empty after the flood", func() bool {
		return !slices.ContainsFunc(v2.RawQueues(), func(q lab.Queue) bool { return q.Unread > 0 })
	})
	cut := d1.Isolate(0)
	first := seen.WaitAdvert(6*time.Second, last.VRID, d2.LinkLocal(), cut)
	lastOf1, _ := lab.LastBefore(lab.From(seen.Adverts(last.VRID), d1.LinkLocal()), cut)
	if took, want := first.At.Sub(lastOf1.At), downTimer(time.Second, 100); took > want+500*time.Millisecond {
		t.Errorf("after the flood d2 took over %v after the last advert, want %v", took, want)
	}
}

// O16 where nothing is delivered: a backup in FAULT, in INIT, or with no group
// left on the interface must not leave its sockets unread either.
func TestO16FloodWhileInactive(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d2")
	d2 := l.Node("d2")
	x := l.AddHost("x", 50)
	d2.LinkDown(1)
	conf := func(extra ...string) string {
		list := tenGroups(100)
		for i := range list {
			list[i].Extra = extra
		}
		return lab.VipdConf("", list...)
	}
	v := d2.Vipd(conf(`track_interface ["eth1"]`))
	v.WaitState("V6_4", "FAULT", 5*time.Second)
	flood := x.Flood(5000, junk(x, d2)...)
	quietly := func(what string, sockets int) {
		t.Helper()
		var unread []int64
		for range 60 {
			// Also events about addresses, which somebody has to read.
			d2.IP("addr add 10.9.0.77/32 dev eth0")
			d2.IP("addr del 10.9.0.77/32 dev eth0")
			unread = append(unread, v.Unread())
		}
		slices.Sort(unread)
		if median := unread[len(unread)/2]; median > 64<<10 {
			t.Errorf("%s: receive queues are not read: median %d bytes, most %d", what, median, unread[len(unread)-1])
		}
		if n := len(v.RawQueues()); n != sockets {
			t.Errorf("%s: %d raw sockets, want %d", what, n, sockets)
		}
	}
	quietly("in FAULT", 2)
	v.Reload(lab.VipdConf("", tenGroups(100)[0]))
	l.Eventually(3*time.Second, "the IPv6 socket is closed with its last group", func() bool { return len(v.RawQueues()) == 1 })
	quietly("one group left", 1)
	flood.Stop()
	l.Eventually(2*time.Second, "all queues are empty after the flood", func() bool { return v.Unread() == 0 })
}

// tenGroups are five groups a family.
func tenGroups(prio int) []lab.Instance {
	var list []lab.Instance
	for i := range uint8(5) {
		four, six := lab.VIP().As4(), lab.VIP6().As16()
		four[3] += i
		six[15] += i
		local := netip.MustParseAddr(fmt.Sprintf("fe80::%d", 100+i))
		list = append(list,
			lab.Instance{Name: fmt.Sprintf("V4_%d", i), VRID: 10 + i, Priority: prio, VIPs: []netip.Addr{netip.AddrFrom4(four)}},
			lab.Instance{Name: fmt.Sprintf("V6_%d", i), VRID: 20 + i, Priority: prio, VIPs: []netip.Addr{local, netip.AddrFrom16(six)}})
	}
	return list
}

// junk is what a hostile LAN may carry: packets that look good but are another
// cluster's, and bad ones of each kind, also sent to the victim alone.
func junk(x, victim *lab.Node) [][]byte {
	var list [][]byte
	for i, inst := range tenGroups(0) {
		f := families()[i%2]
		good := stranger(f, x)
		good.VRID, good.Priority = inst.VRID, uint8(50+20*i)
		unknown, spoiled, version, routed, alone := good, good, good, good, good
		unknown.VRID = 99
		spoiled.BadSum = true
		version.Version = 7
		routed.TTL = 254
		alone.Dst, alone.DstMAC = f.source(victim), victim.MAC()
		for _, s := range []lab.Speech{good, unknown, spoiled, version, routed, alone} {
			list = append(list, x.Frame(s))
		}
	}
	return list
}
