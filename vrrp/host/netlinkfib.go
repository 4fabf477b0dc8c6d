package host

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host/fib"
)

// What the libraries do not name.
const (
	rtaxLock   = 1 // RTAX_LOCK
	ruleInvert = 2 // FIB_RULE_INVERT
)

// Tables is the part of the kernel that holds routes and rules. The next hops of routes
// have their interfaces' indexes. Errors wrap the kernel's errno: EEXIST an equal one
// exists, ESRCH and ENOENT there is none.
type Tables interface {
	// AddObject adds a route or a rule. It never changes an existing one, but a next hop
	// is added to an IPv6 route with the same destination and metric.
	AddObject(o fib.Object) error
	// DelObject removes a route or a rule that is as described.
	DelObject(o fib.Object) error
	// Tables says what Kernel.State shall read of routes, with all rules; nil: nothing.
	Tables(queries []fib.Query)
}

var _ Tables = (*Netlink)(nil)

// AddObject implements Tables.
func (n *Netlink) AddObject(o fib.Object) error {
	req := nl.NewNetlinkRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	if o.Route != nil {
		flags := unix.NLM_F_CREATE | unix.NLM_F_ACK
		switch o.Route.Place {
		case fib.Append:
			flags |= unix.NLM_F_APPEND
		case fib.Alone:
			flags |= unix.NLM_F_EXCL
		}
		req = nl.NewNetlinkRequest(unix.RTM_NEWROUTE, flags)
	}
	return n.object(req, o, "adding")
}

// DelObject implements Tables.
func (n *Netlink) DelObject(o fib.Object) error {
	typ := unix.RTM_DELRULE
	if o.Route != nil {
		typ = unix.RTM_DELROUTE
	}
	return n.object(nl.NewNetlinkRequest(typ, unix.NLM_F_ACK), o, "removing")
}

func (n *Netlink) object(req *nl.NetlinkRequest, o fib.Object, what string) error {
	if o.Route != nil {
		addRoute(req, o.Route)
	} else {
		addRule(req, o.Rule)
	}
	n.wmu.Lock()
	defer n.wmu.Unlock()
	n.writes.Add(1)
	defer n.wrote()
	if err := n.w.exchange(req, nil); err != nil {
		return fmt.Errorf("%s %s %s: %w", what, o.Kind(), o, err)
	}
	return nil
}

// addressFamily returns AF_INET or AF_INET6.
func addressFamily(ipv6 bool) int {
	if ipv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// addRoute adds what an addition and a removal share.
func addRoute(req *nl.NetlinkRequest, r *fib.Route) {
	msg := &nl.RtMsg{RtMsg: unix.RtMsg{
		Family: uint8(addressFamily(r.IPv6())), Dst_len: uint8(r.Dst.Bits()), Tos: r.TOS, Protocol: r.Protocol, Scope: r.Scope, Type: r.Type,
		Table: unix.RT_TABLE_UNSPEC,
	}}
	if r.Table < 256 {
		msg.Table = uint8(r.Table)
	}
	if len(r.Hops) == 1 && r.Hops[0].OnLink {
		msg.Flags |= unix.RTNH_F_ONLINK
	}
	req.AddData(msg)
	req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(r.Table)))
	if r.Dst.Bits() > 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_DST, r.Dst.Addr().AsSlice()))
	}
	if r.Metric != 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(r.Metric)))
	}
	if r.Src.IsValid() {
		req.AddData(nl.NewRtAttr(unix.RTA_PREFSRC, r.Src.AsSlice()))
	}
	switch {
	case r.Type != fib.Unicast && r.Type != fib.Local:
	case len(r.Hops) == 1:
		if h := r.Hops[0]; h.Via.IsValid() {
			req.AddData(gateway(h.Via, r.IPv6()))
		}
		if h := r.Hops[0]; h.Index != 0 {
			req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(h.Index))))
		}
	case len(r.Hops) > 1:
		var hops []byte
		for _, h := range r.Hops {
			hops = append(hops, nextHop(h, r.IPv6())...)
		}
		req.AddData(nl.NewRtAttr(unix.RTA_MULTIPATH, hops))
	}
	if len(r.Metrics) > 0 {
		metrics := nl.NewRtAttr(unix.RTA_METRICS, nil)
		lock := uint32(0)
		for _, m := range r.Metrics {
			metrics.AddRtAttr(int(m.ID), nl.Uint32Attr(m.Value))
			if m.Lock {
				lock |= 1 << m.ID
			}
		}
		if lock != 0 {
			metrics.AddRtAttr(rtaxLock, nl.Uint32Attr(lock))
		}
		req.AddData(metrics)
	}
}

// gateway is the attribute of a next hop's address.
func gateway(via netip.Addr, ipv6 bool) *nl.RtAttr {
	if via.Is6() == ipv6 {
		return nl.NewRtAttr(unix.RTA_GATEWAY, via.AsSlice())
	}
	b := binary.NativeEndian.AppendUint16(nil, uint16(addressFamily(via.Is6())))
	return nl.NewRtAttr(unix.RTA_VIA, append(b, via.AsSlice()...))
}

// nextHop is one struct rtnexthop with its address.
func nextHop(h fib.Hop, ipv6 bool) []byte {
	var attr []byte
	if h.Via.IsValid() {
		attr = gateway(h.Via, ipv6).Serialize()
	}
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtNexthop+len(attr)))
	flags := byte(0)
	if h.OnLink {
		flags = unix.RTNH_F_ONLINK
	}
	b = append(b, flags, byte(h.Weight-1))
	b = binary.NativeEndian.AppendUint32(b, uint32(h.Index))
	return append(b, attr...)
}

// addRule adds what an addition and a removal share.
func addRule(req *nl.NetlinkRequest, r *fib.Rule) {
	msg := &nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(addressFamily(r.IPv6)), Tos: r.TOS, Type: uint8(r.Action)}}
	if r.Table < 256 {
		msg.Table = uint8(r.Table)
	}
	if r.Not {
		msg.Flags |= ruleInvert
	}
	if r.From.IsValid() {
		msg.Src_len = uint8(r.From.Bits())
	}
	if r.To.IsValid() {
		msg.Dst_len = uint8(r.To.Bits())
	}
	req.AddData(msg)
	number := func(typ int, n uint32) { req.AddData(nl.NewRtAttr(typ, nl.Uint32Attr(n))) }
	number(nl.FRA_PRIORITY, r.Priority)
	if r.From.IsValid() {
		req.AddData(nl.NewRtAttr(nl.FRA_SRC, r.From.Addr().AsSlice()))
	}
	if r.To.IsValid() {
		req.AddData(nl.NewRtAttr(nl.FRA_DST, r.To.Addr().AsSlice()))
	}
	if r.IIF != "" {
		req.AddData(nl.NewRtAttr(nl.FRA_IIFNAME, nl.ZeroTerminated(r.IIF)))
	}
	if r.OIF != "" {
		req.AddData(nl.NewRtAttr(nl.FRA_OIFNAME, nl.ZeroTerminated(r.OIF)))
	}
	if r.Mask != 0 {
		number(nl.FRA_FWMARK, r.Mark)
		number(nl.FRA_FWMASK, r.Mask)
	}
	switch {
	case r.Action == fib.ToTable && r.Table == 0:
		req.AddData(nl.NewRtAttr(nl.FRA_L3MDEV, []byte{1}))
	case r.Action == fib.ToTable:
		number(nl.FRA_TABLE, r.Table)
	case r.Action == fib.Goto:
		number(nl.FRA_GOTO, r.Goto)
	}
	if r.IPProto != 0 {
		req.AddData(nl.NewRtAttr(nl.FRA_IP_PROTO, []byte{r.IPProto}))
	}
	for typ, p := range map[int][2]uint16{nl.FRA_SPORT_RANGE: r.SPort, nl.FRA_DPORT_RANGE: r.DPort} {
		if p[1] != 0 {
			b := binary.NativeEndian.AppendUint16(nil, p[0])
			req.AddData(nl.NewRtAttr(typ, binary.NativeEndian.AppendUint16(b, p[1])))
		}
	}
	if r.UID {
		b := binary.NativeEndian.AppendUint32(nil, r.UIDs[0])
		req.AddData(nl.NewRtAttr(nl.FRA_UID_RANGE, binary.NativeEndian.AppendUint32(b, r.UIDs[1])))
	}
	if r.SuppressPrefix >= 0 {
		number(nl.FRA_SUPPRESS_PREFIXLEN, uint32(r.SuppressPrefix))
	}
	req.AddData(nl.NewRtAttr(nl.FRA_PROTOCOL, []byte{r.Protocol}))
}
