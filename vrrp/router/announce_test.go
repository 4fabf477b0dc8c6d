package router

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

// losing is an advert of a lesser master for a member of a group.
func losing(member string) socket.Frame {
	i := member[0] - 'A'
	src := netip.AddrFrom4([4]byte{10, 9, i, 50})
	a := packet.Advert{
		Version: 3, VRID: 51 + i, Priority: 10, Interval: time.Second, Form: packet.FormPseudo,
		Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 9, i, 100})},
	}
	b, err := a.AppendTo(nil, src, socket.Group4)
	if err != nil {
		panic(err)
	}
	ip := packet.AppendIPv4(nil, src, socket.Group4, 1, packet.TTL, len(b))
	return socket.Frame{From: "lesser", Src: src, Dst: socket.Group4, TTL: packet.TTL, Packet: append(ip, b...)}
}

// TestLosingAdvertToAGroup: a lesser master of one member has taken the addresses of
// all, so all are announced again; those outside the group and those that are not
// MASTER are not. A flood of such adverts leads to a burst per 200 ms, not to one
// for each.
func TestLosingAdvertToAGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		d := n.boot("d1", member("A", 200, "G"), member("B", 200, "G"), member("C", 200, ""))
		d.setLinks(groupLinks(1))
		n.run(5 * time.Second)
		if got := d.states(); got != "A MASTER, B MASTER, C MASTER, G MASTER" {
			t.Fatal(got)
		}
		bursts := func() string {
			var out []string
			for _, e := range d.take() {
				if name, ok := strings.CutSuffix(e.text, " announce lower_prio"); ok {
					out = append(out, name)
				}
			}
			return strings.Join(out, " ")
		}
		d.take()
		n.lan.Inject(losing("A"))
		n.run(time.Second)
		if got := bursts(); got != "A B" {
			t.Errorf("after an advert to A: %q", got)
		}
		n.lan.Inject(losing("C"))
		n.run(time.Second)
		if got := bursts(); got != "C" {
			t.Errorf("after an advert to C: %q", got)
		}
		for range 100 {
			n.lan.Inject(losing("A"))
			n.lan.Inject(losing("B"))
			n.run(10 * time.Millisecond)
		}
		if got := strings.Fields(bursts()); len(got) < 8 || len(got) > 20 {
			t.Errorf("%d bursts in a second of floods: %v", len(got), got)
		}
		d.setLink("eth1", false) // and with it the group
		n.run(time.Second)
		d.take()
		n.lan.Inject(losing("A"))
		n.run(time.Second)
		if got := bursts(); got != "" {
			t.Errorf("in FAULT: %q", got)
		}
	})
}

// TestSourceIsAnnounced: on leaving FAULT an instance that speaks unicast announces
// the address it sends from, wherever that is; one that speaks multicast does not,
// and neither does one that goes from INIT to BACKUP.
func TestSourceIsAnnounced(t *testing.T) {
	for _, c := range []struct {
		name, source, want string
		unicast            bool
	}{
		{"own interface", "", "VI_1 source 10.9.0.1 on eth0", true},
		{"another interface", "10.8.0.1", "VI_1 source 10.8.0.1 on eth1", true},
		{"multicast", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				in := config(200)
				if c.unicast {
					unicastTo("10.9.0.2")(&in)
				}
				if c.source != "" {
					in.Source = netip.MustParseAddr(c.source)
				}
				d := n.boot("d1", in)
				links := map[string]Link{"eth0": link(2, "10.9.0.1"), "eth1": link(3, "10.8.0.1")}
				d.setLinks(links)
				n.run(5 * time.Second)
				if got := times(d.take(), "VI_1 source"); got != nil {
					t.Errorf("announced at the start: %v", got)
				}
				d.setLink("eth0", false)
				n.run(time.Second)
				d.wantState(vrrp.Fault, "")
				if got := times(d.take(), "VI_1 source"); got != nil {
					t.Errorf("announced in FAULT: %v", got)
				}
				up := n.now()
				d.setLink("eth0", true)
				n.run(5 * time.Second)
				log := d.take()
				got := times(log, "VI_1 source")
				switch {
				case c.want == "" && got != nil, c.want != "" && (len(got) != 1 || got[0] != up || times(log, c.want) == nil):
					t.Errorf("want %q once, at once:\n%s", c.want, text(log))
				}
			})
		})
	}
}
