package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// The machine's one or two processors have more to do than these tests; all
// nodes share one of them. Times are chosen so that a stall of some hundred
// milliseconds is no fault.
const (
	calm  = time.Second            // advert interval where no director dies
	brisk = 200 * time.Millisecond // where one does

	patience = 2500 * time.Millisecond // of clients: a SYN that was lost is sent again after 1 s
	slack    = 2 * time.Second

	// The timing of all checks, unless a test says otherwise.
	delayLoop      = 300 * time.Millisecond
	connectTimeout = 700 * time.Millisecond
	retryDelay     = 100 * time.Millisecond
	// From death to DOWN at worst: the wait for the next check, its time-out,
	// and one retry with its own.
	outWithin = delayLoop + connectTimeout + retryDelay + connectTimeout + slack
	// A server that is down is back after one good check.
	backWithin = delayLoop + connectTimeout + slack
)

// timing is the same as configuration, with the first check at once.
const timing = `delay_loop = "300ms"
connect_timeout = "700ms"
retry = 1
delay_before_retry = "100ms"
warmup = 0
`

// vipA is at home on d1, vipB on d2.
func vipA() netip.Addr { return lab.VIP() }
func vipB() netip.Addr { return netip.MustParseAddr("10.9.0.101") }

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

// site is switch, client, directors, and real servers r1 to r3 that hold both
// VIPs and answer on port 80 with their name.
type site struct {
	*lab.Lab
	t       *testing.T
	cl      *lab.Node
	d       []*lab.Node
	r       []*lab.Node
	servers []*lab.Server
}

// newSite makes a site with one to three directors.
func newSite(t *testing.T, directors int) *site {
	t.Helper()
	names := []string{"cl", "r1", "r2", "r3", "d1", "d2", "d3"}[:4+directors]
	s := &site{Lab: lab.New(t, names...), t: t}
	s.cl, s.r, s.d = s.Node("cl"), s.Nodes("r1", "r2", "r3"), s.Nodes(names[4:]...)
	for _, r := range s.r {
		r.HoldVIP(vipA(), vipB())
		s.servers = append(s.servers, r.Serve(80, r.Name))
	}
	return s
}

// pair is the VRRP half of director i (from 0): two groups, each director
// prefers one of them. What follows are its services.
func pair(i int, interval time.Duration, services ...string) string {
	prio := [2][2]int{{200, 100}, {100, 200}}[i]
	return lab.VipdConf("",
		lab.Instance{Name: "A", VRID: 51, Priority: prio[0], Interval: interval, VIPs: []netip.Addr{vipA()}},
		lab.Instance{Name: "B", VRID: 52, Priority: prio[1], Interval: interval, VIPs: []netip.Addr{vipB()}},
	) + "\n" + strings.Join(services, "\n")
}

// alone is the VRRP half of a director without a peer.
func alone(services ...string) string {
	return lab.VipdConf("", lab.Instance{Name: "A", VRID: 51, Priority: 200, Interval: brisk, VIPs: []netip.Addr{vipA()}}) +
		"\n" + strings.Join(services, "\n")
}

// service writes a virtual server: its own lines, the usual timing and
// TCP_CHECK, and its servers as "10.9.0.11:80" or "10.9.0.11:80 3" with a weight.
func service(own string, servers ...string) string {
	return checked(own, "[virtual_server.TCP_CHECK]\n", servers...)
}

// checked is service with another check table.
func checked(own, check string, servers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[[virtual_server]]\n%s\n%s%s", own, timing, check)
	for _, s := range servers {
		address, weight, ok := strings.Cut(s, " ")
		fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = %q\n", address)
		if ok {
			fmt.Fprintf(&b, "weight = %s\n", weight)
		}
	}
	return b.String()
}

// web is the plain LVS-DR service of a VIP.
func web(vip netip.Addr, scheduler string, weights ...int) string {
	return service(fmt.Sprintf("address = \"%v:80\"\nlvs_sched = %q\nlvs_method = \"DR\"\n", vip, scheduler), servers(weights...)...)
}

// servers are r1, r2, … on port 80 with weights.
func servers(weights ...int) []string {
	var list []string
	for i, w := range weights {
		list = append(list, fmt.Sprintf("10.9.0.%d:80 %d", 11+i, w))
	}
	return list
}

// weights is the table entry of servers(…): a negative weight leaves one out.
func weights(list ...int) map[string]int {
	m := map[string]int{}
	for i, w := range list {
		if w >= 0 {
			m[fmt.Sprintf("10.9.0.%d:80", 11+i)] = w
		}
	}
	return m
}

// tcp is the name of a VIP's service on port 80 in lab.Table.
func tcp(vip netip.Addr) string { return fmt.Sprintf("TCP %v:80", vip) }

// start starts the directors and waits until each has its own group and all
// have the whole table.
func (s *site) start(configs ...string) []*lab.Daemon {
	s.t.Helper()
	var daemons []*lab.Daemon
	for i, c := range configs {
		daemons = append(daemons, s.d[i].Vipd(c))
	}
	s.WaitOwner(vipA(), 15*time.Second, "d1")
	if len(configs) > 1 {
		s.WaitOwner(vipB(), 15*time.Second, "d2")
	}
	return daemons
}

// syns counts what the client sent to port 80 of a VIP and reached a node after
// a time: connections that were tried, accepted or not.
func syns(c *lab.Capture, after time.Time) int {
	return len(lab.Filter(c.Frames(), func(f lab.Frame) bool {
		p, ok := f.Parse()
		return ok && !f.Sent && f.At.After(after) && p.Protocol == 6 && len(p.Payload) >= 20 &&
			p.Payload[2] == 0 && p.Payload[3] == 80 && // destination port
			p.Payload[13]&0x12 == 0x02 && // SYN without ACK
			slices.Contains([]netip.Addr{vipA(), vipB()}, p.Dst)
	}))
}

// shares fails the test unless each server got its share of the connections
// within 5 % of it.
func shares(t *testing.T, got map[string]int, err error, want map[string]int) {
	t.Helper()
	if err != nil {
		t.Errorf("%d connections failed, the first: %v", got[""], err)
	}
	for name, w := range want {
		if diff := got[name] - w; diff*20 > w || diff*20 < -w {
			t.Errorf("%s answered %d connections, want %d within 5 %%: %v", name, got[name], w, got)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q answered %d connections, want none", name, got[name])
		}
	}
}
