package host

import (
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel acknowledges a new IPv6 address before it takes packets to it: a worker of its own makes the route and
// joins the group that neighbours ask in, when it gets a processor and the lock of all interfaces. An announcement
// before that draws packets that are dropped, and who has just asked in vain asks again a second later.
const (
	answerSoon = 2 * time.Millisecond   // for so long it is asked again and again
	answerPoll = 100 * time.Microsecond // with this pause
	answerLate = time.Millisecond       // and then with this one
	answerMost = 100 * time.Millisecond // then the address is told anyway
)

// answerer is a kernel whose addresses take packets some time after they were added.
type answerer interface {
	answers(index int, ip netip.Addr) bool
}

// answers reports whether the kernel takes packets to an IPv6 address of the interface.
func (n *Netlink) answers(index int, ip netip.Addr) (local bool) {
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_ACK)
	req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET6, Dst_len: 128}})
	req.AddData(nl.NewRtAttr(unix.RTA_DST, ip.AsSlice()))
	req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(index))))
	n.wmu.Lock()
	defer n.wmu.Unlock()
	err := n.w.exchange(req, func(body []byte) { local = len(body) >= unix.SizeofRtMsg && body[7] == unix.RTN_LOCAL })
	return local && err == nil
}

// unready is an address that is there, but takes no packets yet.
type unready struct {
	event
	since time.Time
}

// answered reports whether an address that is there takes packets.
func (m *Manager) answered(ev event) bool {
	k, ok := m.kernel.(answerer)
	ip := ev.address.Prefix.Addr()
	return !ok || ip.Is4() || ev.address.DAD || ev.link == nil || k.answers(ev.link.Index, ip)
}

// catchUp tells of those addresses that take packets by now, in their order. It returns when to look again; zero: not
// before something happens.
func (m *Manager) catchUp() (wake time.Time) {
	for len(m.unready) > 0 {
		u := m.unready[0]
		waited := time.Since(u.since)
		if waited < answerMost && !m.answered(u.event) {
			if waited < answerSoon {
				return u.since.Add(waited + answerPoll)
			}
			return u.since.Add(waited + answerLate)
		}
		m.unready = m.unready[1:]
		m.mu.Lock()
		still := m.book.still(u.event)
		m.mu.Unlock()
		if still {
			m.present(u.event)
		}
	}
	m.unready = nil
	return time.Time{}
}

// still reports whether an address that was there is there, and wanted.
func (b *book) still(ev event) bool {
	in := b.instances[ev.instance]
	if in == nil || !in.wanted {
		return false
	}
	e := b.entries[key{in.set.dev(ev.address), ev.address.Prefix}]
	return e != nil && e.present && slices.ContainsFunc(e.users, func(u *user) bool { return u.inst == in && u.told })
}

// nap sleeps until a time that is near, and reports whether it did. Timers of the standard library take a millisecond.
func nap(until time.Time) bool {
	d := time.Until(until)
	if until.IsZero() || d > answerPoll {
		return false
	}
	pause := unix.NsecToTimespec(int64(max(d, 0)))
	_ = unix.Nanosleep(&pause, nil) // interrupted is as good
	return true
}

// earlier is the earlier one of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
