package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// State implements Kernel. When addresses change faster than they can be read, the result has the interfaces of now
// and the addresses of the last complete reading, with At of that reading; without such a reading it is an error.
func (n *Netlink) State() (State, error) {
	n.rmu.Lock()
	defer n.rmu.Unlock()
	s := State{Began: time.Now()}
	err := retry(func() (err error) {
		s.Links, err = n.r.links()
		return err
	})
	if err != nil {
		return State{}, fmt.Errorf("reading interfaces: %w", err)
	}
	err = retry(func() error {
		s.writes = n.writes.Load()
		s.At = time.Now()
		return n.r.addresses(s.Links)
	})
	switch {
	case errors.Is(err, errInterrupted) && n.good.Links != nil:
		s.At, s.writes = n.good.At, n.good.writes
		for name, l := range s.Links {
			l.Addrs = nil
			if old := n.good.Links[name]; old != nil && old.Index == l.Index {
				l.Addrs = old.Addrs
			}
		}
		return s, nil
	case err != nil:
		return State{}, fmt.Errorf("reading addresses: %w", err)
	}
	names := make(map[int]string, len(s.Links))
	for name, l := range s.Links {
		names[l.Index] = name
	}
	if s.FIB, s.fibErr = n.readFIB(names); s.fibErr == nil {
		n.good = s
	}
	return s, nil
}

// retry repeats an interrupted dump a few times.
func retry(dump func() error) (err error) {
	for range dumpAttempts {
		if err = dump(); !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return err
}

func (c *conn) links() (map[string]*Link, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(statsFilter)))
	links := map[string]*Link{}
	err := c.exchange(req, func(body []byte) {
		if l := parseLink(body); l != nil {
			links[l.Name] = l
		}
	})
	return links, err
}

func parseLink(body []byte) *Link {
	if len(body) < unix.SizeofIfInfomsg {
		return nil
	}
	flags := binary.NativeEndian.Uint32(body[8:])
	l := &Link{
		Index: int(int32(binary.NativeEndian.Uint32(body[4:]))), Flags: flags,
		Up:       flags&unix.IFF_UP != 0,
		Running:  flags&unix.IFF_RUNNING != 0 && flags&unix.IFF_LOWER_UP != 0,
		Loopback: flags&unix.IFF_LOOPBACK != 0, NoARP: flags&unix.IFF_NOARP != 0,
	}
	link, elsewhere := 0, false
	attributes(body[unix.SizeofIfInfomsg:], func(typ uint16, v []byte) {
		switch typ {
		case unix.IFLA_IFNAME:
			l.Name = unix.ByteSliceToString(v)
		case unix.IFLA_ADDRESS:
			if len(v) == len(l.MAC) {
				copy(l.MAC[:], v)
			}
		case unix.IFLA_MTU:
			if len(v) >= 4 {
				l.MTU = int(binary.NativeEndian.Uint32(v))
			}
		case unix.IFLA_AF_SPEC:
			l.Forwarding6 = forwarding6(v)
		case unix.IFLA_LINK:
			if len(v) >= 4 {
				link = int(int32(binary.NativeEndian.Uint32(v)))
			}
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		case unix.IFLA_IFALIAS:
			l.Alias = unix.ByteSliceToString(v)
		case unix.IFLA_GROUP:
			if len(v) >= 4 {
				l.Group = binary.NativeEndian.Uint32(v)
			}
		case unix.IFLA_LINKINFO:
			l.VRFTable = vrfTable(v)
			l.Kind, l.Private = linkKind(v)
		}
	})
	if l.Name == "" {
		return nil
	}
	if link != l.Index && !elsewhere {
		l.Parent = link
	}
	return l
}

// linkKind reads what kind of link it is, and whether it is a macvlan in private mode.
func linkKind(info []byte) (kind string, private bool) {
	var data []byte
	attributes(info, func(typ uint16, v []byte) {
		switch typ {
		case unix.IFLA_INFO_KIND:
			kind = unix.ByteSliceToString(v)
		case unix.IFLA_INFO_DATA:
			data = v
		}
	})
	if kind != "macvlan" {
		return kind, false
	}
	attributes(data, func(typ uint16, v []byte) {
		if typ == nl.IFLA_MACVLAN_MODE && len(v) >= 4 {
			private = binary.NativeEndian.Uint32(v) == nl.MACVLAN_MODE_PRIVATE
		}
	})
	return kind, private
}

// vrfTable reads the routing table of a VRF out of the interface's description, 0 for
// other kinds.
func vrfTable(info []byte) (table uint32) {
	kind := ""
	attributes(info, func(typ uint16, v []byte) {
		switch {
		case typ == unix.IFLA_INFO_KIND:
			kind = unix.ByteSliceToString(v)
		case typ == unix.IFLA_INFO_DATA && kind == "vrf":
			attributes(v, func(typ uint16, v []byte) {
				if typ == nl.IFLA_VRF_TABLE {
					table = number32(v)
				}
			})
		}
	})
	return table
}

// forwarding6 reads net.ipv6.conf.IFACE.forwarding out of the interface's description: the first of its IPv6
// settings.
func forwarding6(families []byte) (on bool) {
	attributes(families, func(family uint16, v []byte) {
		if family != unix.AF_INET6 {
			return
		}
		attributes(v, func(typ uint16, v []byte) {
			if typ == inet6Conf && len(v) >= 4 {
				on = int32(binary.NativeEndian.Uint32(v)) > 0
			}
		})
	})
	return on
}

// addresses fills in the addresses of the interfaces.
func (c *conn) addresses(links map[string]*Link) error {
	byIndex := make(map[uint32]*Link, len(links))
	for _, l := range links {
		l.Addrs = nil
		byIndex[uint32(l.Index)] = l
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	req.AddData(nl.NewIfAddrmsg(unix.AF_UNSPEC))
	return c.exchange(req, func(body []byte) {
		if len(body) < unix.SizeofIfAddrmsg {
			return
		}
		l := byIndex[binary.NativeEndian.Uint32(body[4:])]
		if l == nil {
			return // the interface is newer than the list of interfaces; another event follows
		}
		if a, ok := parseAddr(body, l.Name); ok {
			l.Addrs = append(l.Addrs, a)
		}
	})
}

func parseAddr(body []byte, dev string) (Addr, bool) {
	a := Addr{Scope: body[3], ValidLft: forever, PreferredLft: forever}
	flags := uint32(body[2])
	var local, address netip.Addr
	attributes(body[unix.SizeofIfAddrmsg:], func(typ uint16, v []byte) {
		switch typ {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(v)
		case unix.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(v)
		case unix.IFA_BROADCAST:
			a.Broadcast, _ = netip.AddrFromSlice(v)
		case unix.IFA_LABEL:
			if a.Label = unix.ByteSliceToString(v); a.Label == dev {
				a.Label = ""
			}
		case unix.IFA_FLAGS:
			if len(v) >= 4 {
				flags = binary.NativeEndian.Uint32(v)
			}
		case unix.IFA_CACHEINFO:
			if len(v) >= 8 {
				a.PreferredLft = binary.NativeEndian.Uint32(v)
				a.ValidLft = binary.NativeEndian.Uint32(v[4:])
			}
		case ifaProto:
			if len(v) >= 1 {
				a.Proto = v[0]
			}
		}
	})
	if !local.IsValid() { // IPv6 without a peer has the address alone
		local = address
	}
	if !local.IsValid() || int(body[1]) > local.BitLen() {
		return Addr{}, false
	}
	if address.IsValid() && address != local {
		a.Peer = address
	}
	a.Prefix = netip.PrefixFrom(local, int(body[1]))
	a.setFlags(flags)
	return a, true
}
