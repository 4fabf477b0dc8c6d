package cases

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// garp_form: some equipment learns from gratuitous replies only, some from requests
// only.
//
// Claim: each form updates what a Linux neighbour has, even while it holds on to a
// fresh entry (locktime), makes a new entry where arp_accept asks for that and none
// where it does not; both is a pair of frames for each announcement. A reply bears its
// own MAC as the target's, or Linux would not take it for gratuitous.
func TestGARPForms(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"request", "reply", "both"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			garpForm(t, form)
		})
	}
}

func garpForm(t *testing.T, form string) {
	l := lab.New(t, "d1", "cl", "r1")
	d1, cl, r1 := l.Node("d1"), l.Node("cl"), l.Node("r1")
	const old = "02:00:00:00:00:77" // of the director that had the VIP before
	r1.Sysctl("net/ipv4/conf/eth0/arp_accept", "1")
	seen := cl.Capture()
	d1.Vipd(lab.VipdConf("", lab.Instance{Priority: 255, VIPs: []netip.Addr{lab.VIP()},
		Extra: []string{"garp_master_delay 1", "garp_master_repeat 2", "garp_master_refresh 0", "garp_form " + form}}))
	waitAnnouncedBy(seen, lab.VIP(), d1.MAC(), time.Time{}, 10*time.Second)
	time.Sleep(500 * time.Millisecond)
	// The second burst meets an entry of the moment, which only a gratuitous frame
	// may change within the next second.
	cl.IP(fmt.Sprintf("neigh replace %v lladdr %s nud reachable dev eth0", lab.VIP(), old))
	fresh := time.Now()
	l.Eventually(5*time.Second, "the client has the VIP at d1", func() bool { return cl.Neigh(lab.VIP()) == d1.MAC() })
	if took := time.Since(fresh); took > 950*time.Millisecond {
		t.Logf("the entry was %v old: too old to show more than that it is updated", took)
	}
	if got := r1.Neigh(lab.VIP()); got != d1.MAC() {
		t.Errorf("with arp_accept the neighbour has made no entry: %q", got)
	}
	time.Sleep(300 * time.Millisecond)
	ops := map[uint16]int{}
	for i, a := range seen.GARPs(lab.VIP()) {
		ops[a.Op]++
		target := map[uint16]string{1: "ff:ff:ff:ff:ff:ff", 2: d1.MAC()}[a.Op]
		if a.DstMAC != "ff:ff:ff:ff:ff:ff" || a.SenderMAC != d1.MAC() || a.SrcMAC != d1.MAC() || a.TargetMAC != target {
			t.Errorf("frame %d: op %d to %s, sender %s, target %s; want target %s", i, a.Op, a.DstMAC, a.SenderMAC, a.TargetMAC, target)
		}
	}
	want := map[string]map[uint16]int{"request": {1: 4}, "reply": {2: 4}, "both": {1: 4, 2: 4}}[form]
	if fmt.Sprint(ops) != fmt.Sprint(want) {
		t.Errorf("frames by opcode: %v, want %v", ops, want)
	}
	cl.IP("neigh flush dev eth0")
	d1.IP("addr del 10.9.0.100/32 dev eth0") // it is put back, and announced
	l.Eventually(5*time.Second, "it is announced again", func() bool { return len(seen.GARPs(lab.VIP())) >= 2*(want[1]+want[2]) })
	if got := cl.Neigh(lab.VIP()); got != "" {
		t.Errorf("without arp_accept the client has made an entry: %q", got)
	}
}

// garp_group: interfaces that lead to one switch.
//
// Claim: frames on all of them together keep the gap of the group, whatever the
// instances say; each address is announced once before any is again; none is lost;
// and a reload changes the gap in place.
func TestGARPGroup(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	const each, repeat = 20, 3
	conf := func(gap time.Duration) string {
		var instances []lab.Instance
		for i := range 2 {
			in := lab.Instance{Name: fmt.Sprintf("VI_%d", i), Interface: fmt.Sprintf("eth%d", i), VRID: uint8(51 + i), Priority: 255,
				Extra: []string{fmt.Sprintf("garp_master_repeat %d", repeat), "garp_master_delay 0", "garp_master_refresh 2", "garp_interval 0"}}
			for j := range each {
				in.VIPs = append(in.VIPs, netip.AddrFrom4([4]byte{10, byte(9 - i), 1, byte(j + 1)}))
			}
			instances = append(instances, in)
		}
		return lab.VipdConf("", instances...) + fmt.Sprintf("[vrrp_sync_group.G]\ngroup = [\"VI_0\", \"VI_1\"]\n[[garp_group]]\ninterfaces = [\"eth0\", \"eth1\"]\ngarp_interval = %q\n", gap)
	}
	captures := []*lab.Capture{d1.CaptureOn("eth0"), d1.CaptureOn("eth1")}
	sent := func() []lab.Announcement {
		all := slices.Concat(captures[0].Announcements(netip.Addr{}), captures[1].Announcements(netip.Addr{}))
		all = lab.Filter(all, func(a lab.Announcement) bool { return a.Sent })
		slices.SortFunc(all, func(a, b lab.Announcement) int { return a.At.Compare(b.At) })
		return all
	}
	v1 := d1.Vipd(conf(10 * time.Millisecond))
	l.Eventually(15*time.Second, "the burst is over", func() bool { time.Sleep(100 * time.Millisecond); return len(sent()) >= 2*each*repeat })
	burst := sent()[:2*each*repeat]
	count := map[netip.Addr]int{}
	for i, a := range burst {
		if count[a.Address]++; i < 2*each && count[a.Address] > 1 {
			t.Errorf("frame %d repeats %v before each address was announced", i, a.Address)
		}
	}
	for a, n := range count {
		if n != repeat {
			t.Errorf("%d frames of %v, want %d", n, a, repeat)
		}
	}
	gaps(t, burst, 10*time.Millisecond)

	v1.Reload(conf(30 * time.Millisecond))
	l.Eventually(5*time.Second, "the reload is done", func() bool { return strings.Contains(v1.Log(), "garp_interval 10ms -> 30ms") })
	now := time.Now()
	l.Eventually(10*time.Second, "a whole refresh", func() bool {
		time.Sleep(100 * time.Millisecond)
		return len(lab.Between(sent(), now, time.Now())) >= 3*each
	})
	gaps(t, lab.Between(sent(), now, time.Now()), 30*time.Millisecond)
	if n := len(lab.From(captures[0].Adverts(51), d1.Addr())); n == 0 || strings.Contains(v1.Log(), "MASTER -> ") {
		t.Errorf("the reload moved an instance; %d adverts:\n%s", n, v1.Log())
	}
}

// gaps checks that frames keep a distance. A time stamp is taken when the kernel sends,
// and the daemon reads its clock a little earlier: of a gap 1 ms may be missing, and of
// one in twenty more, on a busy machine.
func gaps(t *testing.T, list []lab.Announcement, want time.Duration) {
	t.Helper()
	short := 0
	for i := 1; i < len(list); i++ {
		if list[i].At.Sub(list[i-1].At) < want-time.Millisecond {
			short++
		}
	}
	if short > len(list)/20 || len(list) < 2 {
		t.Errorf("%d of %d gaps are shorter than %v", short, len(list)-1, want)
	}
	if span, least := list[len(list)-1].At.Sub(list[0].At), time.Duration(len(list)-1)*want; span < least-2*time.Millisecond {
		t.Errorf("%d frames within %v, want at least %v", len(list), span, least)
	}
}

// garp_extra_if: a VIP on an interface without adverts; the switch there forgets where
// its MAC is.
//
// Claim: one frame a period there, of the first address, without "all" on interfaces
// with a virtual MAC alone; and switched on and off by reload without a burst.
func TestGARPExtraInterface(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	d1.IP("link add vm0 link eth1 address 00:00:5e:00:01:33 type macvlan mode private")
	d1.IP("addr add 10.8.0.201/24 dev vm0")
	d1.IP("link set vm0 up")
	conf := func(extra string) string {
		in := lab.Instance{Priority: 255, Extra: []string{"garp_master_repeat 1", "garp_master_delay 0", "garp_master_refresh 0",
			`virtual_ipaddress ["10.9.0.100", "10.8.0.100 dev eth1", "10.8.0.101 dev eth1", "10.8.0.102 dev vm0"]`}}
		if extra != "" {
			in.Extra = append(in.Extra, extra)
		}
		return lab.VipdConf("", in)
	}
	seen, front := l.Node("cl").CaptureOn("eth1"), l.Node("cl").Capture()
	v1 := d1.Vipd(conf("garp_extra_if all 1"))
	l.WaitOwner(netip.MustParseAddr("10.8.0.102"), 10*time.Second, "d1")
	time.Sleep(200 * time.Millisecond)
	span := func(what string, want map[string]bool) {
		t.Helper()
		from := time.Now()
		time.Sleep(3 * time.Second)
		got := map[string]int{}
		for _, c := range []*lab.Capture{seen, front} {
			for _, a := range lab.Between(c.Announcements(netip.Addr{}), from, time.Now()) {
				got[a.Address.String()]++
			}
		}
		for addr, n := range got {
			if !want[addr] || n < 2 || n > 4 {
				t.Errorf("%s: %d frames of %s", what, n, addr)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: frames %v, want those of %v", what, got, want)
		}
	}
	span("all", map[string]bool{"10.8.0.100": true, "10.8.0.102": true})
	reload := func(extra, said string) {
		t.Helper()
		v1.Reload(conf(extra))
		l.Eventually(5*time.Second, "the reload is done", func() bool { return strings.Contains(v1.Log(), said) })
	}
	reload("garp_extra_if 1", "garp_extra_if all 1 -> 1s")
	span("virtual MAC", map[string]bool{"10.8.0.102": true})
	reload("", "garp_extra_if 1s -> 0")
	span("off", map[string]bool{})
}

// A losing advert for one member of a sync group, and an instance by unicast that
// leaves FAULT: vipd does as keepalived does.
//
// Claim: the other masters of the group announce their addresses, too, for whoever
// sent the advert has taken them all; and on leaving FAULT the source address is
// announced once, so that peers who have lost it hear adverts at once.
func TestAnnouncementsOfGroupAndSource(t *testing.T) {
	t.Parallel()
	for _, daemon := range []string{"vipd", "keepalived"} {
		t.Run(daemon, func(t *testing.T) {
			t.Parallel()
			groupAndSource(t, daemon)
		})
	}
}

func groupAndSource(t *testing.T, daemon string) {
	l := lab.New(t, "d1", "d2", "cl")
	d1, cl := l.Node("d1"), l.Node("cl")
	other := netip.MustParseAddr("10.8.0.100")
	extra := []string{"garp_master_delay 0", "garp_master_refresh 0", "garp_lower_prio_repeat 3", "garp_lower_prio_delay 0"}
	group := []lab.Instance{
		{Name: "VI_A", VRID: 51, Priority: 200, VIPs: []netip.Addr{lab.VIP()}, Extra: extra},
		{Name: "VI_B", VRID: 52, Priority: 200, Interface: "eth1", VIPs: []netip.Addr{other}, Extra: extra},
	}
	unicast := lab.Instance{Name: "VI_U", VRID: 53, Priority: 100, VIPs: []netip.Addr{netip.MustParseAddr("10.9.0.103")}, Peers: []string{"10.9.0.2"}}
	if daemon == "vipd" {
		d1.Vipd(lab.VipdConf("", append(group, unicast)...) + "[vrrp_sync_group.G]\ngroup = [\"VI_A\", \"VI_B\"]\n")
	} else {
		d1.Keepalived(lab.KeepalivedConf("vrrp_sync_group G {\n group {\n  VI_A\n  VI_B\n }\n}\n", append(group, unicast)...))
	}
	l.WaitOwner(other, 15*time.Second, "d1")
	l.WaitOwner(unicast.VIPs[0], 15*time.Second, "d1")
	front, second := cl.Capture(), cl.CaptureOn("eth1")
	time.Sleep(500 * time.Millisecond)
	at := time.Now()
	advert{src: cl.Addr(), vrid: 51, priority: 10, interval: time.Second, addrs: group[0].VIPs}.send(cl)
	time.Sleep(time.Second)
	for c, vip := range map[*lab.Capture]netip.Addr{front: lab.VIP(), second: other} {
		if n := len(lab.Between(c.GARPs(vip), at, time.Now())); n != 3 {
			t.Errorf("%d announcements of %v after a losing advert to VI_A, want 3", n, vip)
		}
	}
	if n := len(lab.Between(front.GARPs(unicast.VIPs[0]), at, time.Now())); n != 0 {
		t.Errorf("%d announcements of an address outside the group", n)
	}

	d1.PortDown(0)
	time.Sleep(time.Second)
	up := d1.PortUp(0)
	l.Eventually(10*time.Second, "the source address is announced", func() bool {
		return len(lab.Between(front.GARPs(d1.Addr()), up, time.Now())) > 0
	})
	time.Sleep(time.Second)
	if n := len(lab.Between(front.GARPs(d1.Addr()), up, time.Now())); n != 1 {
		t.Errorf("%d announcements of the source address, want 1", n)
	}
}
