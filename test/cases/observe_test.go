package cases

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// The first day of a migration: vipd run --observe beside a running pair of
// keepalived, and on a third node that has none.
//
// Claim: it decides as keepalived does, at the same moment, and says so; it says when
// it does not. It sends nothing, joins nothing and changes nothing: a node without
// keepalived sends no frame and its kernel is as before; of the others every
// announcement is one that keepalived has logged, and no advert comes between.
func TestObserve(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "d3")
	d1, d2, d3 := l.Node("d1"), l.Node("d2"), l.Node("d3")
	conf := func(write func(string, ...lab.Instance) string, priority int) string {
		var list []lab.Instance
		for _, f := range families() {
			list = append(list, lab.Instance{Name: f.instance, VRID: f.vrid, Priority: priority, VIPs: f.vips, State: "BACKUP",
				Interval: observedInterval, Extra: []string{"garp_master_delay 1", "garp_master_refresh 0"}})
		}
		return write("", list...)
	}
	owner := func(name string) {
		t.Helper()
		for _, f := range families() {
			l.WaitOwner(f.vip, 15*time.Second, name)
		}
	}
	captures := map[string]*lab.Capture{}
	for _, n := range l.Nodes("d1", "d2", "d3") {
		captures[n.Name] = n.Capture()
	}
	k2 := d2.Keepalived(conf(lab.KeepalivedConf, 100))
	k1 := d1.Keepalived(conf(lab.KeepalivedConf, 200))
	owner("d1")
	settled(l, d3)
	before, joined, began := kernelState(d3), groupsOf(d3), time.Now()
	monitor := d3.Start("monitor", "ip", "monitor", "link", "address", "route", "rule")
	v1 := d1.Vipd(conf(lab.VipdConf, 200), "--observe")
	v2 := d2.Vipd(conf(lab.VipdConf, 100), "--observe")
	v3 := d3.Vipd(conf(lab.VipdConf, 50), "--observe")
	for _, f := range families() {
		v1.WaitLog(`agrees: keepalived is MASTER here.*"`+f.instance, 10*time.Second)
	}
	if now := groupsOf(d3); now != joined {
		t.Errorf("d3 had joined\n%s\nand has with an observer\n%s", joined, now)
	}
	stopped := k1.Stop(5 * time.Second)
	log1 := k1.Log()
	owner("d2")
	for _, f := range families() {
		v1.WaitLog(`DIFFERS: keepalived is not MASTER here, vipd would be MASTER.*"`+f.instance, 10*time.Second)
	}
	k1 = d1.Keepalived(conf(lab.KeepalivedConf, 200))
	owner("d1")
	time.Sleep(2500 * time.Millisecond)
	status, err := v2.Ctl("status")
	if !strings.Contains(status, "OBSERVING") || !strings.Contains(status, "agrees: keepalived is not MASTER here") {
		t.Errorf("status of d2's observer: %v\n%s", err, status)
	}
	k1.Stop(5 * time.Second)
	k2.Stop(5 * time.Second)
	time.Sleep(2 * time.Second)
	for _, v := range []*lab.Daemon{v1, v2, v3} {
		v.Signal(syscall.SIGTERM)
		if code := v.Wait(2 * time.Second); code != 0 {
			t.Errorf("%s: exit code %d", v.Name, code)
		}
	}
	stories(t, v1, v2, v3, captures["d2"], stopped)
	if after := kernelState(d3); after != before {
		t.Errorf("the kernel of d3 has changed, from\n%s\nto\n%s", before, after)
	}
	if log := monitor.Log(); strings.TrimSpace(log) != "" {
		t.Errorf("something was changed on d3:\n%s", log)
	}
	onlyKeepalived(t, captures["d1"], log1+k1.Log())
	onlyKeepalived(t, captures["d2"], k2.Log())
	all := lab.Filter(lab.Between(captures["d3"].Frames(), began, time.Now()), func(f lab.Frame) bool { return f.Sent })
	if len(all) > 0 {
		t.Errorf("d3, which has no keepalived, has sent %d frames, the first is % x", len(all), all[0].Raw)
	}
}

// observedInterval is the advert interval of TestObserve.
const observedInterval = 200 * time.Millisecond

// onlyKeepalived checks that a node has sent what its keepalived has logged.
func onlyKeepalived(t *testing.T, c *lab.Capture, log string) {
	t.Helper()
	for _, f := range families() {
		logged := len(regexp.MustCompile(`Sending (gratuitous ARP|unsolicited Neighbour Advert) on eth0 for `+regexp.QuoteMeta(f.vip.String())).FindAllString(log, -1))
		sent := lab.Filter(c.Announcements(f.vip), func(a lab.Announcement) bool { return a.Sent })
		if len(sent) != logged || logged < 10 {
			t.Errorf("%d announcements of %v were sent, and %d logged by keepalived", len(sent), f.vip, logged)
		}
		adverts := lab.Filter(c.Adverts(f.vrid), func(a lab.Advert) bool { return a.Sent })
		short := 0
		for i := 1; i < len(adverts); i++ {
			if adverts[i].At.Sub(adverts[i-1].At) < observedInterval/2 {
				short++ // an answer, a takeover, a resignation
			}
		}
		if short > len(adverts)/5 || len(adverts) < 10 {
			t.Errorf("%d of %d adverts of %s came less than half an interval after another one", short, len(adverts), f.instance)
		}
	}
	if n := c.Lost(); n > 0 {
		t.Errorf("the capture lost %d frames", n)
	}
}

// stories checks what the observers told.
func stories(t *testing.T, v1, v2, v3 *lab.Daemon, seen *lab.Capture, stopped time.Time) {
	t.Helper()
	told := func(v *lab.Daemon, steps ...string) {
		t.Helper()
		for _, f := range families() {
			rest := v.Log()
			for _, s := range steps {
				at := regexp.MustCompile(`(?m)^.* (INFO|WARN) ` + s + `.*"` + f.instance + `".*$`).FindStringIndex(rest)
				if at == nil {
					t.Errorf("%s, %s: no %q where it should be in\n%s", v.Name, f.instance, s, v.Log())
					break
				}
				rest = rest[at[1]:]
			}
		}
	}
	told(v1, "would go INIT -> BACKUP", "would become MASTER: send an advert, add .*there already.*announce", "agrees: keepalived is MASTER here",
		"DIFFERS: keepalived is not MASTER here, vipd would be MASTER", "agrees: keepalived is MASTER here")
	told(v2, "would go INIT -> BACKUP", "agrees: keepalived is not MASTER here, vipd would be BACKUP",
		"would become MASTER: send an advert, add .* to eth0.*announce", "agrees: keepalived is MASTER here, vipd would be MASTER, too",
		"would leave MASTER for BACKUP: remove .*send a last advert", "agrees: keepalived is not MASTER here, vipd would be BACKUP",
		"would become MASTER")
	told(v3, "would go INIT -> BACKUP", "agrees: keepalived is not MASTER here, vipd would be BACKUP", "would become MASTER", "DIFFERS|vipd has stopped|$")
	for _, f := range families() {
		// As keepalived beside it: its first advert is that of its takeover.
		line := regexp.MustCompile(`(?m)^(\S+) INFO would become MASTER.*"` + f.instance + `".*$`).FindStringSubmatch(v2.Log())
		first, ok := lab.FirstAfter(lab.Filter(seen.Adverts(f.vrid), func(a lab.Advert) bool { return a.Sent }), stopped)
		if line == nil || !ok {
			t.Errorf("%s: no takeover by d2", f.name)
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, line[1])
		if d := at.Sub(first.At); err != nil || d < -500*time.Millisecond || d > 500*time.Millisecond {
			t.Errorf("%s: vipd would have taken over %v after keepalived did (%v)", f.name, d, err)
		}
	}
}

// kernelState is what vipd changes when it does not only observe.
func kernelState(n *lab.Node) string {
	text := n.Sh("ip -d link show | grep -v promiscuity; ip addr show; ip route show table all; ip -6 route show table all; ip rule; ip -6 rule; ip maddr; " +
		"find /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf /proc/sys/net/ipv4/neigh -type f | sort | xargs grep -sH . || true; " +
		"cat /proc/net/igmp6; awk '{ print $1, $2, $3 }' /proc/net/igmp")
	return strings.ReplaceAll(text, "Error: Peer netns reference is invalid.\n", "") // of ip, on a busy machine
}

// settled waits until no address of n waits for duplicate address detection, and
// what that has set off is over.
func settled(l *lab.Lab, n *lab.Node) {
	l.Eventually(15*time.Second, "the addresses of "+n.Name+" are settled", func() bool { return !strings.Contains(n.IP("addr show"), "tentative") })
	time.Sleep(time.Second)
}

// groupsOf are the multicast groups that a node has joined.
func groupsOf(n *lab.Node) string {
	return n.Sh("cat /proc/net/igmp6; awk '{ print $1, $2 }' /proc/net/igmp")
}
