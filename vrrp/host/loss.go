package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// mark notes what of our own was changed before all events that are still to be taken.
func (s *subscription) mark(k Kernel) {
	if k, ok := k.(prober); ok {
		s.written = k.written()
	}
}

// prober is a kernel that can be asked for little.
type prober interface {
	link(index int) (*Link, error) // without addresses, when what the kernel is changing has been changed
	written() uint64               // as State.writes
}

// link reads one interface. The kernel answers when it has the lock of all interfaces: the change that an event was
// about is then over, and its other events have been sent.
func (n *Netlink) link(index int) (l *Link, err error) {
	n.rmu.Lock()
	defer n.rmu.Unlock()
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(statsFilter)))
	err = n.r.exchange(req, func(body []byte) { l = parseLink(body) })
	if err == nil && l == nil {
		err = unix.ENODEV
	}
	if err != nil {
		return nil, fmt.Errorf("reading interface %d: %w", index, err)
	}
	return l, nil
}

func (n *Netlink) written() uint64 { return n.writes.Load() }

// anticipate publishes what is left when the event that was just received, and those after it, are nothing but losses
// of addresses of an interface, vipd's among them: they are put back before all else is read, which takes its time
// where there are many addresses. All other cases, and whatever depends on routes, are left to the reading that
// follows.
func (w *Watcher) anticipate(sub *subscription) error {
	k, ok := w.kernel.(prober)
	if !ok {
		return nil
	}
	l := losses{base: w.last}
	if !l.take(sub.got) || !l.ours {
		return nil
	}
	fresh, err := k.link(l.link.Index)
	if err != nil {
		return nil // it has gone, too
	}
	at, all, err := sub.rest(l.take)
	if err != nil || !all {
		return err
	}
	if fresh.Addrs = l.link.Addrs; !fresh.equal(l.link) {
		return nil
	}
	// A change of our own since the last reading was no event, and is not in it. After one just before that reading the
	// loss may be an older one, which it made good.
	if n := k.written(); n != w.last.writes || n != sub.written || n%2 != 0 {
		return nil
	}
	fresh.Addrs = l.left
	s := State{Links: maps.Clone(w.last.Links), At: at, writes: w.last.writes}
	s.Links[fresh.Name] = fresh
	w.published.Add(1)
	w.last = s
	w.publish(s)
	w.readAt, w.pause = time.Now(), watchPause
	return nil
}

// losses are addresses of one interface that events say are gone.
type losses struct {
	base State
	link *Link  // of base
	left []Addr // what it still has
	ours bool   // an address that is gone had vipd's mark
}

// take takes in events and reports whether they are nothing but that, or about routes and rules.
func (l *losses) take(b []byte) bool {
	for len(b) >= unix.SizeofNlMsghdr {
		m, rest, ok := cutMessage(b)
		if !ok {
			return false
		}
		switch m.typ {
		case unix.RTM_DELADDR:
			if !l.lose(m.body) {
				return false
			}
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWRULE, unix.RTM_DELRULE:
		default:
			return false
		}
		b = rest
	}
	return true
}

func (l *losses) lose(body []byte) bool {
	if len(body) < unix.SizeofIfAddrmsg {
		return false
	}
	index := int(number32(body[4:]))
	if l.link == nil {
		if l.link = l.base.ByIndex(index); l.link == nil {
			return false
		}
		l.left = slices.Clone(l.link.Addrs)
	}
	a, ok := parseAddr(body, l.link.Name)
	i := slices.IndexFunc(l.left, func(o Addr) bool { return o.Prefix == a.Prefix && o.Peer == a.Peer })
	if !ok || l.link.Index != index || i < 0 {
		return false
	}
	l.ours = l.ours || marked(l.left[i].Proto)
	l.left = slices.Delete(l.left, i, i+1)
	return true
}

// rest takes the events that are there and hands them to take. It returns since when there are no others, and whether
// take took them all.
func (s *subscription) rest(take func([]byte) bool) (at time.Time, all bool, err error) {
	for range drainLimit {
		at = time.Now()
		n, err := s.receive(false)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return at, true, nil
		case s.interrupted(err):
			return at, false, nil
		case err != nil:
			return at, false, err
		case !take(s.buf[:n]):
			return at, false, nil
		}
	}
	return at, false, nil
}
