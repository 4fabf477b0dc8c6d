package hosttest

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
)

func (l *link) find(p netip.Prefix) int {
	return slices.IndexFunc(l.Addrs, func(a host.Addr) bool { return a.Prefix == p })
}

// add does what the kernel does to a new address (devinet.c, addrconf.c).
func (l *link) add(a host.Addr) error {
	if !a.Prefix.IsValid() || a.ValidLft == 0 || a.PreferredLft > a.ValidLft {
		return unix.EINVAL
	}
	a.Flags |= unix.IFA_F_PERMANENT
	if a.Prefix.Addr().Is4() {
		return l.add4(a)
	}
	return l.add6(a)
}

// add4 makes the address a secondary one when its subnet has a primary one; primaries come first.
func (l *link) add4(a host.Addr) error {
	a.Secondary = false
	a.Flags &^= unix.IFA_F_SECONDARY
	last := 0
	for i, o := range l.Addrs {
		if !o.Prefix.Addr().Is4() {
			continue
		}
		if !o.Secondary {
			last = i + 1
		}
		if o.Prefix.Masked() != a.Prefix.Masked() {
			continue
		}
		if o.Prefix == a.Prefix {
			return unix.EEXIST
		}
		if o.Scope != a.Scope {
			return unix.EINVAL
		}
		a.Secondary = true
		a.Flags |= unix.IFA_F_SECONDARY
	}
	if a.Secondary {
		last = len(l.Addrs)
	}
	l.Addrs = slices.Insert(l.Addrs, last, a)
	return nil
}

// add6 takes an address once only, whatever its prefix length; its scope follows from the address.
func (l *link) add6(a host.Addr) error {
	if slices.ContainsFunc(l.Addrs, func(o host.Addr) bool { return o.Prefix.Addr() == a.Prefix.Addr() }) {
		return unix.EEXIST
	}
	a.Scope = 0
	if a.Prefix.Addr().IsLinkLocalUnicast() {
		a.Scope = unix.RT_SCOPE_LINK
	}
	if a.PreferredLft == 0 {
		a.Deprecated = true
		a.Flags |= unix.IFA_F_DEPRECATED
	}
	l.Addrs = append(l.Addrs, a)
	return nil
}

func (l *link) del(p netip.Prefix) error {
	i := l.find(p)
	if i < 0 {
		return unix.EADDRNOTAVAIL
	}
	gone := l.Addrs[i]
	l.Addrs = slices.Delete(l.Addrs, i, i+1)
	if !p.Addr().Is4() || gone.Secondary {
		return nil
	}
	kin := func(a host.Addr) bool { return a.Secondary && a.Prefix.Masked() == p.Masked() }
	if !l.promote {
		l.Addrs = slices.DeleteFunc(l.Addrs, kin)
		return nil
	}
	if i := slices.IndexFunc(l.Addrs, kin); i >= 0 {
		heir := l.Addrs[i]
		heir.Secondary = false
		heir.Flags &^= unix.IFA_F_SECONDARY
		l.Addrs = slices.Insert(slices.Delete(l.Addrs, i, i+1), 0, heir)
	}
	return nil
}

// set changes the link; going down costs the IPv6 addresses, coming up makes a link-local one.
func (l *link) set(up, running bool) {
	if l.Up && !up {
		l.Addrs = slices.DeleteFunc(l.Addrs, func(a host.Addr) bool { return a.Prefix.Addr().Is6() })
	}
	rose := up && !l.Up
	l.Up, l.Running = up, up && running
	l.Flags &^= unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOWER_UP
	if l.Up {
		l.Flags |= unix.IFF_UP
	}
	if l.Running {
		l.Flags |= unix.IFF_RUNNING | unix.IFF_LOWER_UP
	}
	if rose {
		m := l.MAC
		ip := netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]})
		l.Addrs = append(l.Addrs, host.Addr{
			Prefix: netip.PrefixFrom(ip, 64), Scope: unix.RT_SCOPE_LINK, Flags: unix.IFA_F_PERMANENT,
			Proto: 3, ValidLft: ^uint32(0), PreferredLft: ^uint32(0),
		})
	}
}
