package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host/fib"
)

// Tables implements Tables of the package.
func (n *Netlink) Tables(queries []fib.Query) {
	if queries != nil {
		queries = slices.Clone(queries)
	}
	n.tables.Store(&queries)
}

// relevant reports whether an event about a route or rule may be the loss of one of ours:
// a removal, or a route that came in the place of another.
func (n *Netlink) relevant(m message) bool {
	t := n.tables.Load()
	if t == nil || *t == nil {
		return false
	}
	switch {
	case m.typ == unix.RTM_NEWRULE, m.typ == unix.RTM_NEWROUTE && m.flags&unix.NLM_F_REPLACE == 0:
		return false
	case m.typ == unix.RTM_DELRULE:
		return true
	}
	r, ok := parseRoute(m.body, nil)
	return ok && slices.ContainsFunc(*t, func(q fib.Query) bool {
		return q.IPv6 == r.IPv6() && q.Table == r.Table && (q.Protocol == 0 || q.Protocol == r.Protocol || m.typ == unix.RTM_NEWROUTE)
	})
}

// readFIB reads the tables that are asked for; nil when none is, or when they changed
// faster than they could be read.
func (n *Netlink) readFIB(names map[int]string) (*fib.State, error) {
	t := n.tables.Load()
	if t == nil || *t == nil {
		return nil, nil
	}
	var s *fib.State
	err := retry(func() error {
		s = &fib.State{At: time.Now(), Queries: *t}
		for _, q := range *t {
			if err := n.f.routes(q, names, &s.Routes); err != nil {
				return err
			}
		}
		for _, ipv6 := range []bool{false, true} {
			if err := n.f.rules(ipv6, &s.Rules); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading routes and rules: %w", err)
	}
	return s, nil
}

// routes reads one table. The kernel filters where it can (Linux 4.20).
func (c *conn) routes(q fib.Query, names map[int]string, out *[]fib.Route) error {
	req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(addressFamily(q.IPv6)), Protocol: q.Protocol}})
	req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(q.Table)))
	err := c.exchange(req, func(body []byte) {
		if r, ok := parseRoute(body, names); ok && r.Table == q.Table && (q.Protocol == 0 || r.Protocol == q.Protocol) {
			*out = append(*out, r)
		}
	})
	if errors.Is(err, unix.ENOENT) { // there is no such table yet
		return nil
	}
	return err
}

func parseRoute(body []byte, names map[int]string) (fib.Route, bool) {
	if len(body) < unix.SizeofRtMsg || body[0] != unix.AF_INET && body[0] != unix.AF_INET6 {
		return fib.Route{}, false
	}
	flags := binary.NativeEndian.Uint32(body[8:])
	if flags&unix.RTM_F_CLONED != 0 || body[2] != 0 { // not of the table; or for certain sources only
		return fib.Route{}, false
	}
	r := fib.Route{TOS: body[3], Table: uint32(body[4]), Protocol: body[5], Scope: body[6], Type: body[7]}
	bits, ipv6 := int(body[1]), body[0] == unix.AF_INET6
	dst := netip.IPv4Unspecified()
	if ipv6 {
		dst, r.Scope = netip.IPv6Unspecified(), 0
	}
	one := fib.Hop{Weight: 1, OnLink: flags&unix.RTNH_F_ONLINK != 0}
	attributes(body[unix.SizeofRtMsg:], func(typ uint16, v []byte) {
		switch typ {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(v)
		case unix.RTA_TABLE:
			r.Table = number32(v)
		case unix.RTA_PRIORITY:
			r.Metric = number32(v)
		case unix.RTA_PREFSRC:
			r.Src, _ = netip.AddrFromSlice(v)
		case unix.RTA_GATEWAY, unix.RTA_VIA:
			one.Via = parseGateway(typ, v)
		case unix.RTA_OIF:
			one.Index = int(number32(v))
			one.Dev = names[one.Index]
		case unix.RTA_MULTIPATH:
			r.Hops = parseHops(v, names)
		case unix.RTA_METRICS:
			r.Metrics = parseMetrics(v)
		}
	})
	if !dst.IsValid() || bits > dst.BitLen() {
		return fib.Route{}, false
	}
	r.Dst = netip.PrefixFrom(dst, bits)
	if len(r.Hops) == 0 && (r.Type == fib.Unicast || r.Type == fib.Local) {
		r.Hops = []fib.Hop{one}
	}
	return r, true
}

func number32(v []byte) uint32 {
	if len(v) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(v)
}

func parseGateway(typ uint16, v []byte) netip.Addr {
	if typ == unix.RTA_VIA && len(v) > 2 {
		v = v[2:]
	}
	a, _ := netip.AddrFromSlice(v)
	return a
}

func parseHops(b []byte, names map[int]string) []fib.Hop {
	var hops []fib.Hop
	for len(b) >= unix.SizeofRtNexthop {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			break
		}
		h := fib.Hop{OnLink: b[2]&unix.RTNH_F_ONLINK != 0, Weight: int(b[3]) + 1, Index: int(number32(b[4:]))}
		h.Dev = names[h.Index]
		attributes(b[unix.SizeofRtNexthop:size], func(typ uint16, v []byte) {
			if typ == unix.RTA_GATEWAY || typ == unix.RTA_VIA {
				h.Via = parseGateway(typ, v)
			}
		})
		hops = append(hops, h)
		b = b[min((size+3)&^3, len(b)):]
	}
	return hops
}

func parseMetrics(b []byte) []fib.Metric {
	var all []fib.Metric
	lock := uint32(0)
	attributes(b, func(typ uint16, v []byte) {
		switch {
		case typ == rtaxLock:
			lock = number32(v)
		case len(v) == 4:
			all = append(all, fib.Metric{ID: typ, Value: number32(v)})
		}
	})
	for i := range all {
		all[i].Lock = lock&(1<<all[i].ID) != 0
	}
	slices.SortFunc(all, func(a, b fib.Metric) int { return int(a.ID) - int(b.ID) })
	return all
}

// rules reads all rules of a family.
func (c *conn) rules(ipv6 bool, out *[]fib.Rule) error {
	req := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
	req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(addressFamily(ipv6))}})
	err := c.exchange(req, func(body []byte) {
		if r, ok := parseRule(body); ok && r.IPv6 == ipv6 {
			*out = append(*out, r)
		}
	})
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) { // a kernel without IPv6, or without rules
		return nil
	}
	return err
}

func parseRule(body []byte) (fib.Rule, bool) {
	if len(body) < unix.SizeofRtMsg {
		return fib.Rule{}, false
	}
	r := fib.Rule{
		IPv6: body[0] == unix.AF_INET6, TOS: body[3], Table: uint32(body[4]), Action: fib.Action(body[7]), SuppressPrefix: -1,
		Not: binary.NativeEndian.Uint32(body[8:])&ruleInvert != 0,
	}
	prefix := func(v []byte, bits byte) netip.Prefix {
		a, _ := netip.AddrFromSlice(v)
		return netip.PrefixFrom(a, int(bits))
	}
	l3mdev := false
	attributes(body[unix.SizeofRtMsg:], func(typ uint16, v []byte) {
		switch typ {
		case nl.FRA_SRC:
			r.From = prefix(v, body[2])
		case nl.FRA_DST:
			r.To = prefix(v, body[1])
		case nl.FRA_IIFNAME:
			r.IIF = unix.ByteSliceToString(v)
		case nl.FRA_OIFNAME:
			r.OIF = unix.ByteSliceToString(v)
		case nl.FRA_PRIORITY:
			r.Priority = number32(v)
		case nl.FRA_TABLE:
			r.Table = number32(v)
		case nl.FRA_GOTO:
			r.Goto = number32(v)
		case nl.FRA_FWMARK:
			r.Mark = number32(v)
		case nl.FRA_FWMASK:
			r.Mask = number32(v)
		case nl.FRA_SUPPRESS_PREFIXLEN:
			r.SuppressPrefix = int(int32(number32(v)))
		case nl.FRA_L3MDEV:
			l3mdev = len(v) > 0 && v[0] != 0
		case nl.FRA_PROTOCOL:
			r.Protocol = v[0]
		case nl.FRA_IP_PROTO:
			r.IPProto = v[0]
		case nl.FRA_SPORT_RANGE, nl.FRA_DPORT_RANGE:
			if len(v) >= 4 {
				span := [2]uint16{binary.NativeEndian.Uint16(v), binary.NativeEndian.Uint16(v[2:])}
				if typ == nl.FRA_SPORT_RANGE {
					r.SPort = span
				} else {
					r.DPort = span
				}
			}
		case nl.FRA_UID_RANGE:
			if len(v) >= 8 {
				r.UID, r.UIDs = true, [2]uint32{number32(v), number32(v[4:])}
			}
		}
	})
	if l3mdev || r.Action != fib.ToTable {
		r.Table = 0
	}
	return r, true
}
