package lab

import (
	"net/netip"
	"time"
)

// Stamped is anything with a time: frames, adverts, probes.
type Stamped interface{ Time() time.Time }

// decode collects what pick accepts, in order.
func decode[T any](c *Capture, pick func(Packet) (T, bool)) []T {
	var list []T
	for _, f := range c.Frames() {
		if p, ok := f.Parse(); ok {
			if v, ok := pick(p); ok {
				list = append(list, v)
			}
		}
	}
	return list
}

// Adverts lists the VRRP adverts of one virtual router (0: of all) so far.
func (c *Capture) Adverts(vrid uint8) []Advert {
	return decode(c, func(p Packet) (Advert, bool) {
		a, ok := p.Advert()
		return a, ok && (vrid == 0 || a.VRID == vrid)
	})
}

// ARPs lists all ARP frames so far.
func (c *Capture) ARPs() []ARP { return decode(c, Packet.ARP) }

// GARPs lists the gratuitous ARP frames for an address so far (the zero Addr: for all).
func (c *Capture) GARPs(vip netip.Addr) []ARP {
	return decode(c, func(p Packet) (ARP, bool) {
		a, ok := p.ARP()
		return a, ok && a.Gratuitous() && (!vip.IsValid() || a.Sender == vip)
	})
}

// NAs lists the unsolicited neighbour advertisements for an address so far (the
// zero Addr: for all).
func (c *Capture) NAs(vip netip.Addr) []NA {
	return decode(c, func(p Packet) (NA, bool) {
		a, ok := p.NA()
		return a, ok && !a.Solicited && (!vip.IsValid() || a.Target == vip)
	})
}

// Announcement is a gratuitous ARP frame or an unsolicited neighbour
// advertisement.
type Announcement struct {
	Frame
	Address netip.Addr
	MAC     string // the one announced
}

// Announcements lists both kinds for an address so far (the zero Addr: for all).
func (c *Capture) Announcements(vip netip.Addr) []Announcement {
	return decode(c, func(p Packet) (Announcement, bool) {
		if a, ok := p.ARP(); ok && a.Gratuitous() {
			return Announcement{p.Frame, a.Sender, a.SenderMAC}, !vip.IsValid() || a.Sender == vip
		}
		if a, ok := p.NA(); ok && !a.Solicited {
			return Announcement{p.Frame, a.Target, a.MAC}, !vip.IsValid() || a.Target == vip
		}
		return Announcement{}, false
	})
}

// From keeps the adverts of one sender.
func From(list []Advert, src netip.Addr) []Advert {
	return Filter(list, func(a Advert) bool { return a.Src == src })
}

// Filter keeps what keep accepts.
func Filter[T any](list []T, keep func(T) bool) []T {
	var out []T
	for _, v := range list {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// LastBefore is the last one before t.
func LastBefore[T Stamped](list []T, t time.Time) (last T, ok bool) {
	for _, v := range list {
		if v.Time().Before(t) {
			last, ok = v, true
		}
	}
	return last, ok
}

// FirstAfter is the first one at or after t.
func FirstAfter[T Stamped](list []T, t time.Time) (first T, ok bool) {
	for _, v := range list {
		if !v.Time().Before(t) {
			return v, true
		}
	}
	return first, false
}

// Between keeps what happened at or after from and before to.
func Between[T Stamped](list []T, from, to time.Time) []T {
	return Filter(list, func(v T) bool { return !v.Time().Before(from) && v.Time().Before(to) })
}

// LongestGap is the longest time between one and the next, and when it began.
func LongestGap[T Stamped](list []T) (gap time.Duration, from time.Time) {
	for i := 1; i < len(list); i++ {
		if d := list[i].Time().Sub(list[i-1].Time()); d > gap {
			gap, from = d, list[i-1].Time()
		}
	}
	return gap, from
}

// WaitAdvert waits at most limit for an advert of the virtual router from src
// (the zero Addr: from anybody) at or after a time, and fails the test when
// none comes.
func (c *Capture) WaitAdvert(limit time.Duration, vrid uint8, src netip.Addr, after time.Time) Advert {
	c.node.lab.t.Helper()
	var found Advert
	c.WaitFrame(limit, "advert of virtual router "+itoa(vrid)+" from "+src.String(), func(f Frame) bool {
		if f.At.Before(after) {
			return false
		}
		p, ok := f.Parse()
		if !ok {
			return false
		}
		found, ok = p.Advert()
		return ok && found.VRID == vrid && (!src.IsValid() || found.Src == src)
	})
	return found
}
