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

const (
	manyVIPs   = 200
	pacing     = 2 * time.Millisecond
	switchRate = 600 // announcements a second that the switch lets through
)

// crowd is the 200 addresses of one family, with what adverts list of them.
type crowd struct {
	family
	adverted, excluded []netip.Addr
	pace               string // keyword
	match              string // nft match of announcements
}

func crowds() []crowd {
	four, six := families()[0], families()[1]
	c4 := crowd{family: four, pace: "garp_interval", match: four.announce}
	c6 := crowd{family: six, pace: "gna_interval", match: six.announce,
		adverted: []netip.Addr{netip.MustParseAddr("fe80::100")}}
	for i := range manyVIPs {
		c4.adverted = append(c4.adverted, netip.AddrFrom4([4]byte{10, 9, 1, byte(i + 1)}))
		addr := netip.MustParseAddr(fmt.Sprintf("2001:db8:9::1:%x", i+1))
		if i < 50 {
			c6.adverted = append(c6.adverted, addr)
		} else {
			c6.excluded = append(c6.excluded, addr)
		}
	}
	return []crowd{c4, c6}
}

// announced are the addresses that the case counts.
func (c crowd) announced() []netip.Addr {
	return slices.DeleteFunc(slices.Concat(c.adverted, c.excluded), netip.Addr.IsLinkLocalUnicast)
}

// O04: a switch with a rate limit on ARP drops most of a takeover's burst.
//
// Claim: with a pacing below the limit every one of 200 VIPs is repaired at the
// client, frames are spaced as configured, and adverts keep their cadence. Without
// the pacing most are lost, which proves that the switch throttles.
func TestO04PacedBurstPassesAThrottlingSwitch(t *testing.T) {
	t.Parallel()
	for _, c := range crowds() {
		for _, paced := range []bool{true, false} {
			name := c.name + " paced"
			if !paced {
				name = c.name + " not paced"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				throttled(t, c, paced)
			})
		}
	}
}

func throttled(t *testing.T, c crowd, paced bool) {
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	const interval = 100 * time.Millisecond
	pace := "0"
	if paced {
		pace = fmt.Sprint(pacing.Seconds())
	}
	conf := func(priority int) string {
		return lab.VipdConf("", lab.Instance{Name: c.instance, VRID: c.vrid, Priority: priority, Interval: interval,
			VIPs: c.adverted, Excluded: c.excluded, Extra: []string{"garp_master_delay 0", "garp_master_refresh 0", c.pace + " " + pace}})
	}
	vips := c.announced()
	last := vips[len(vips)-1]
	v1 := d1.Vipd(conf(200))
	l.WaitOwner(last, 15*time.Second, "d1")
	d2.Vipd(conf(100)).WaitState(c.instance, "BACKUP", 10*time.Second)
	seen, sent := cl.Capture(), d2.Capture()
	seen.WaitAdvert(5*time.Second, c.vrid, c.source(d1), time.Now())
	for _, vip := range vips {
		remember(cl, vip, d1.MAC())
	}
	l.Switch().Nft(fmt.Sprintf("table bridge throttle {\n chain slow {\n  type filter hook forward priority 0;\n  iifname %q %s limit rate over %d/second burst 5 packets drop\n }\n}\n",
		d2.Name, c.match, switchRate))

	gone := v1.Stop(10 * time.Second)
	l.WaitOwner(last, 10*time.Second, "d2")
	burst := func() []lab.Announcement { return lab.Between(sent.Announcements(netip.Addr{}), gone, time.Now()) }
	l.Eventually(15*time.Second, "5 frames of each VIP are sent", func() bool {
		time.Sleep(200 * time.Millisecond) // looking costs the time of the daemons
		return len(burst()) >= 5*manyVIPs
	})
	time.Sleep(200 * time.Millisecond) // for the client

	wrong := 0
	table := cl.IP("neigh show dev eth0")
	for _, vip := range vips {
		if !strings.Contains(table, vip.String()+" lladdr "+d2.MAC()) {
			wrong++
		}
	}
	switch {
	case paced && wrong > 0:
		t.Errorf("%d of %d VIPs still lead to d1", wrong, len(vips))
	case !paced && wrong < len(vips)/2:
		t.Errorf("without pacing only %d of %d VIPs were lost: the switch does not throttle", wrong, len(vips))
	}
	if paced {
		spaced(t, burst())
	}
	// A busy machine makes an advert late now and then, a daemon that stalls at a
	// takeover does so at every one.
	var gaps []time.Duration
	for range 3 {
		gap, _ := lab.LongestGap(lab.Between(lab.From(seen.Adverts(c.vrid), c.source(d2)), gone, time.Now()))
		if gap > 0 && gap <= interval+interval/2 {
			return
		}
		gaps = append(gaps, gap)
		v1.Again()
		l.WaitOwner(last, 10*time.Second, "d1")
		gone = v1.Stop(10 * time.Second)
		l.WaitOwner(last, 10*time.Second, "d2")
		time.Sleep(manyVIPs*pacing + time.Second)
	}
	t.Errorf("at each takeover adverts came late: %v between two, want %v", gaps, interval)
}

// remember gives the client a neighbour entry that an announcement can change.
func remember(n *lab.Node, addr netip.Addr, mac string) {
	n.IP(fmt.Sprintf("neigh replace %v lladdr %s nud stale dev eth0", addr, mac))
}

// spaced checks the distance of frames as sent. A frame that is late because the
// machine is busy makes one gap longer and the next shorter, so single gaps have
// room and the rate has none.
func spaced(t *testing.T, list []lab.Announcement) {
	t.Helper()
	short := 0
	for i := 1; i < len(list); i++ {
		if list[i].At.Sub(list[i-1].At) < pacing*3/4 {
			short++
		}
	}
	if short > len(list)/20 {
		t.Errorf("%d of %d gaps are shorter than the pacing of %v", short, len(list)-1, pacing)
	}
	const window = 100 * time.Millisecond
	for i := range list {
		n := len(lab.Between(list[i:], list[i].At, list[i].At.Add(window)))
		if most := int(window/pacing) * 11 / 10; n > most {
			t.Errorf("%d announcements within %v, want at most %d", n, window, most)
			return
		}
	}
}
