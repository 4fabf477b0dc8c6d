package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// exchangeMax is how many requests one exchange has: should all fail, their errors still fit the socket.
const exchangeMax = 64

// Change implements Kernel.
func (n *Netlink) Change(changes []Change) []error {
	errs := make([]error, 0, len(changes))
	n.wmu.Lock()
	defer n.wmu.Unlock()
	for some := range slices.Chunk(changes, exchangeMax) {
		errs = append(errs, n.change(some)...)
	}
	return errs
}

// AddAddress adds one address (see Change).
func (n *Netlink) AddAddress(index int, a Addr) error {
	return n.Change([]Change{{Index: index, Addr: a}})[0]
}

// DelAddress removes one address (see Change).
func (n *Netlink) DelAddress(index int, a Addr) error {
	return n.Change([]Change{{Index: index, Addr: a, Remove: true}})[0]
}

// change makes some changes in one exchange. The caller holds wmu.
func (n *Netlink) change(changes []Change) []error {
	n.writes.Add(1)
	defer n.wrote()
	reqs := make([]*nl.NetlinkRequest, len(changes))
	for i, c := range changes {
		reqs[i] = n.request(c)
	}
	errs := n.w.exchangeAll(reqs)
	for i, c := range changes {
		if errors.Is(errs[i], unix.EINVAL) && !c.Remove && c.Addr.Proto != 0 && !n.noMark {
			errs[i] = n.unmarked(c, errs[i])
		}
		switch {
		case errs[i] == nil:
		case c.Remove:
			errs[i] = fmt.Errorf("removing address %s from interface %d: %w", c.Addr.Prefix, c.Index, errs[i])
		default:
			errs[i] = fmt.Errorf("adding address %s to interface %d: %w", c.Addr.Prefix, c.Index, errs[i])
		}
	}
	return errs
}

func (n *Netlink) request(c Change) *nl.NetlinkRequest {
	if c.Remove {
		req := nl.NewNetlinkRequest(unix.RTM_DELADDR, unix.NLM_F_ACK)
		addAddress(req, c.Index, c.Addr)
		return req
	}
	if n.noMark {
		c.Addr.Proto = 0
	}
	return addRequest(c.Index, c.Addr)
}

// unmarked finds out whether it was the mark that the kernel did not take, and returns the error of the addition.
func (n *Netlink) unmarked(c Change, refused error) error {
	c.Addr.Proto = 0
	if n.w.exchange(addRequest(c.Index, c.Addr), nil) != nil {
		return refused
	}
	n.noMark = true
	return nil
}

// exchangeAll sends requests in one call and returns the error of each. The kernel works on them in order and tells of
// each that failed; that it has come to the end, the acknowledgement of the last one says. When an answer was lost, all
// of which nothing is known count as failed: tried again they exist, or are gone, already.
func (c *conn) exchangeAll(reqs []*nl.NetlinkRequest) []error {
	errs := make([]error, len(reqs))
	var out []byte
	for i, req := range reqs {
		if i < len(reqs)-1 {
			req.Flags &^= unix.NLM_F_ACK
		}
		out = append(out, req.Serialize()...) // a multiple of four bytes long
	}
	known := make([]bool, len(reqs))
	err := unix.Sendto(c.sock.GetFd(), out, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	for deadline := time.Now().Add(replyTimeout); err == nil && !known[len(reqs)-1]; {
		var b []byte
		if b, err = c.receive(deadline); err == nil {
			err = c.outcomes(b, reqs, errs, known)
		}
	}
	if err != nil {
		for i := range errs {
			if !known[i] {
				errs[i] = err
			}
		}
	}
	return errs
}

// outcomes notes what acknowledgements say.
func (c *conn) outcomes(b []byte, reqs []*nl.NetlinkRequest, errs []error, known []bool) error {
	for len(b) >= unix.SizeofNlMsghdr {
		m, rest, ok := cutMessage(b)
		if !ok {
			return fmt.Errorf("reading a netlink reply: %w", unix.EBADMSG)
		}
		b = rest
		if m.pid != c.pid || m.typ != unix.NLMSG_ERROR {
			continue
		}
		// Others are late answers to requests that were given up.
		if i := slices.IndexFunc(reqs, func(r *nl.NetlinkRequest) bool { return r.Seq == m.seq }); i >= 0 {
			errs[i], known[i] = ack(m), true
		}
	}
	return nil
}
