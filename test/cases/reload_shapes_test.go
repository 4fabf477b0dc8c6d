package cases

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// shape is one kind of change that a reload makes on a lone MASTER.
type shape struct {
	name          string
	before, after string
	vip           netip.Addr    // the address that is looked at
	gone          time.Duration // how long its kernel may be without it; 0: not for an instant
	announced     bool          // it is announced anew; otherwise not one announcement is sent
	have          string        // the address in the kernel afterwards, "ADDRESS/LEN DEV LABEL"
}

const (
	// swap is how long an address may be away that the kernel cannot change in
	// place: one removal and one addition, on a busy machine.
	swap = 60 * time.Millisecond
	// election is how long a lone router listens before it claims anything, and
	// some time for a busy machine.
	election = 4*quick + 300*time.Millisecond
)

// one is the usual instance of these tests; lines are further settings.
func one(name string, vrid uint8, vips string, lines ...string) lab.Instance {
	return lab.Instance{Name: name, VRID: vrid, Priority: 200, Interval: quick,
		Extra: append(append(plain(), lines...), "virtual_ipaddress "+vips)}
}

// two are two instances with a list of addresses each.
func two(a, b string) string { return lab.VipdConf("", one("A", 51, a), one("B", 52, b)) }

// sole is one instance that is changed by lines.
func sole(vips string, lines ...string) string {
	return lab.VipdConf("", one("A", 51, vips, lines...))
}

// tracking is one instance that tracks a script.
func tracking(track, script string) string {
	return lab.VipdConf("", one("A", 51, `["10.9.0.100"]`, "track_script "+track)) +
		"[vrrp_script.chk]\nscript = \"" + script + "\"\ninterval = 1\ntimeout = 20\n"
}

func shapes() []shape {
	vip := lab.VIP()
	const is = "10.9.0.100/32 eth0 eth0"
	plainly := sole(`["10.9.0.100"]`)
	interfaceOf := func(dev string, version int) string {
		i := one("A", 51, `["10.9.0.100"]`)
		i.Interface, i.Version = dev, version
		if version == 2 {
			i.Interval = time.Second
		}
		return lab.VipdConf("", i)
	}
	prio := func(p int) string {
		i := one("A", 51, `["10.9.0.100"]`)
		i.Priority = p
		return lab.VipdConf("", i)
	}
	return []shape{
		{"moved between two MASTER instances", two(`["10.9.0.100", "10.9.0.101"]`, `["10.9.0.102"]`),
			two(`["10.9.0.101"]`, `["10.9.0.102", "10.9.0.100"]`), vip, 0, true, is},
		{"neighbour of a moved one", two(`["10.9.0.100", "10.9.0.101"]`, `["10.9.0.102"]`),
			two(`["10.9.0.100"]`, `["10.9.0.102", "10.9.0.101"]`), vip, 0, false, is},
		{"moved to excluded", sole(`["10.9.0.101", "10.9.0.100"]`),
			sole(`["10.9.0.101"]`, `virtual_ipaddress_excluded ["10.9.0.100"]`), vip, 0, false, is},
		{"instance renamed", plainly, lab.VipdConf("", one("Z", 51, `["10.9.0.100"]`)), vip, 0, true, is},
		{"VRIDs swapped", lab.VipdConf("", one("A", 51, `["10.9.0.100"]`), one("B", 52, `["10.9.0.101"]`)),
			lab.VipdConf("", one("A", 52, `["10.9.0.100"]`), one("B", 51, `["10.9.0.101"]`)), vip, 0, false, is},
		{"prefix length", plainly, sole(`["10.9.0.100/24"]`), vip, swap, true, "10.9.0.100/24 eth0 eth0"},
		{"label", plainly, sole(`["10.9.0.100/32 label eth0:v"]`), vip, swap, true, "10.9.0.100/32 eth0 eth0:v"},
		{"device", plainly, sole(`["10.9.0.100/32 dev eth1"]`), vip, swap, false, "10.9.0.100/32 eth1 eth1"},
		{"announcement timings", plainly, sole(`["10.9.0.100"]`, "garp_master_repeat 9", "garp_interval 0.01", "garp_lower_prio_repeat 2"),
			vip, 0, false, is},
		{"script added", plainly, tracking(`["chk"]`, "/bin/sleep 15"), vip, 0, false, is},
		{"script changed", tracking(`["chk"]`, "/bin/true"), tracking(`["chk"]`, "/bin/sleep 15"), vip, 0, false, is},
		{"script's weight changed", tracking(`["chk"]`, "/bin/true"), tracking(`["chk weight -20"]`, "/bin/true"), vip, 0, false, is},
		{"nopreempt", plainly, sole(`["10.9.0.100"]`, "nopreempt", "state BACKUP"), vip, 0, false, is},
		{"owner", prio(100), prio(255), vip, 0, false, is},
		{"interface", plainly, interfaceOf("eth1", 3), vip, election, false, "10.9.0.100/32 eth1 eth1"},
		{"IPv6 address moved", two(`["fe80::100", "2001:db8:9::100"]`, `["fe80::101"]`),
			two(`["fe80::100"]`, `["fe80::101", "2001:db8:9::100"]`), lab.VIP6(), 0, true, "2001:db8:9::100/128 eth0 "},
		{"IPv6 prefix length", sole(`["fe80::100", "2001:db8:9::100"]`), sole(`["fe80::100", "2001:db8:9::100/64"]`),
			lab.VIP6(), swap, true, "2001:db8:9::100/64 eth0 "},
		{"IPv6 lifetime", sole(`["fe80::100", "2001:db8:9::100"]`), sole(`["fe80::100", "2001:db8:9::100 preferred_lft forever"]`),
			lab.VIP6(), swap, true, "2001:db8:9::100/128 eth0 "},
		{"version", plainly, interfaceOf("eth0", 2), vip, 4*time.Second + election, true, is},
	}
}

// A reload that touches one thing of a MASTER disturbs nothing else: what can stay
// stays, without an announcement; what cannot is away for one removal and one
// addition. Each shape is tried there and back.
func TestReloadShapes(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "cl")
			d1 := l.Node("d1")
			seen := l.Node("cl").Capture()
			v := d1.Vipd(s.before)
			l.WaitOwner(s.vip, 15*time.Second, "d1")
			has := kernelHas(d1, s.vip)
			time.Sleep(300 * time.Millisecond) // the first burst is over
			s.reload(t, l, v, seen, s.after, s.have)
			s.reload(t, l, v, seen, s.before, has)
			calm(t, v)
		})
	}
}

// reload makes one of the two changes and judges it.
func (s shape) reload(t *testing.T, l *lab.Lab, v *lab.Daemon, seen *lab.Capture, conf, have string) {
	t.Helper()
	owners := l.WatchOwners(s.vip, time.Millisecond)
	from := reloaded(l, v, conf)
	d1 := l.Node("d1")
	l.Eventually(s.gone+2*time.Second, fmt.Sprintf("the kernel has %s", have), func() bool { return kernelHas(d1, s.vip) == have })
	// It may not have left yet: what needs an election is looked at after that.
	time.Sleep(s.gone + 500*time.Millisecond)
	owners.Stop()
	gone := owners.Longest(0)
	if s.gone > 0 { // else one sample is enough
		gone = owners.Surely(0)
	}
	if gone > s.gone {
		t.Errorf("to %q: %v was away for %v, want at most %v", have, s.vip, gone, s.gone)
	}
	if got := kernelHas(d1, s.vip); got != have {
		t.Errorf("the kernel has %q, want %q", got, have)
	}
	n := len(lab.Between(seen.Announcements(s.vip), from, time.Now()))
	dev := strings.Fields(have)[1]
	if s.announced && n == 0 || !s.announced && dev == "eth0" && s.gone == 0 && n > 0 {
		t.Errorf("to %q: %d announcements of %v, want some: %v", have, n, s.vip, s.announced)
	}
}

// reloaded reloads, waits until the daemon says that it did, and returns the time
// just before.
func reloaded(l *lab.Lab, v *lab.Daemon, conf string) time.Time {
	count := func() int { return strings.Count(v.Log(), " INFO reloaded ") }
	before := count()
	at := v.Reload(conf)
	l.Eventually(5*time.Second, v.Name+" has reloaded", func() bool { return count() > before })
	return at
}

// kernelHas tells where the kernel has an address: "ADDRESS/LEN DEV LABEL", joined
// when it is in several places.
func kernelHas(n *lab.Node, addr netip.Addr) string {
	var found []string
	for _, a := range n.Addresses() {
		if a.Prefix.Addr() == addr {
			found = append(found, fmt.Sprintf("%s %s %s", a.Prefix, a.Dev, a.Label))
		}
	}
	return strings.Join(found, ", ")
}

// calm fails when a daemon has logged an error.
func calm(t *testing.T, v *lab.Daemon) {
	t.Helper()
	for line := range strings.Lines(v.Log()) {
		if strings.Contains(line, " ERROR ") || strings.Contains(line, "panic") || strings.Contains(line, "DATA RACE") {
			t.Errorf("in the log: %s", line)
		}
	}
}

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }
