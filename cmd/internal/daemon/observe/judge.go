package observe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/packet"
	"vipd/vrrp/router"
)

// here is what the program beside is on this machine, as far as can be seen.
type here uint8

const (
	unknown here = iota
	master       // it has the addresses
	backup       // it has them not: it is BACKUP or FAULT, or does not run
	silent       // the addresses are here, and nobody here sends adverts for them
)

// String is the word for status.
func (h here) String() string { return [...]string{"UNKNOWN", "MASTER", "BACKUP", "SILENT"}[h] }

// settling is how long an agreement must last before it is told.
const settling = 500 * time.Millisecond

// judgement is the comparison of one moment.
type judgement struct {
	here   here
	ours   vrrp.State
	agrees bool
	text   string
	detail string // what here is concluded from
}

// same reports whether nothing is to be told anew.
func (j *judgement) same(o *judgement) bool { return j.here == o.here && j.ours == o.ours }

// patience is how long a judgement must last before it is told: a moment, or for a
// difference as long as a takeover may need on either side.
func (s *subject) patience(j *judgement) time.Duration {
	if j.agrees {
		return settling
	}
	c := &s.Config
	return vrrp.MasterDownInterval(c.Version, c.Priority, c.AdvertInterval, c.DownTimerAdverts) + 2*time.Second
}

// judge compares an instance with the program beside.
func (s *subject) judge(now time.Time, in *router.InstanceStatus, links host.State) judgement {
	j := judgement{ours: in.Status.State}
	j.here, j.detail = s.look(now, links)
	if j.ours == vrrp.Init {
		j.here = unknown // it waits for something
	}
	mine := j.ours == vrrp.Master
	var theirs string
	switch j.here {
	case unknown:
		j.text = "nothing can be said yet"
		return j
	case master:
		theirs, j.agrees = "keepalived is MASTER here", mine
	case backup:
		theirs, j.agrees = "keepalived is not MASTER here", !mine
	case silent:
		theirs = "the addresses are here, but keepalived sends no adverts: it has ended without removing them, or hangs"
	}
	would := "vipd would be " + j.ours.String()
	if a := in.Status.MasterAddress; a.IsValid() && !mine {
		would += fmt.Sprintf(" (master is %v)", a)
	}
	if j.agrees {
		j.text = "agrees: " + theirs + ", " + would + ", too"
		if j.here == backup {
			j.text = "agrees: " + theirs + ", " + would
		}
		return j
	}
	j.text = "DIFFERS: " + theirs + ", " + would
	if len(s.Assumed) > 0 {
		j.text += "; not run here and taken for good: " + strings.Join(s.Assumed, ", ")
	}
	return j
}

// look concludes what the program beside is from the addresses and its adverts.
func (s *subject) look(now time.Time, links host.State) (here, string) {
	present := 0
	for _, a := range s.Set.Addresses {
		if at(links, a) != "" {
			present++
		}
	}
	heard := !s.own.at.IsZero()
	quiet := now.Sub(s.own.at)
	speaks := heard && s.own.priority != packet.PriorityStop && quiet <= 3*s.Config.AdvertInterval+time.Second
	adverts := "no adverts of its own seen"
	if heard {
		adverts = fmt.Sprintf("adverts of priority %d", s.own.priority)
		if !speaks {
			adverts = fmt.Sprintf("last advert %v ago, of priority %d", quiet.Round(time.Second), s.own.priority)
		}
	}
	total := len(s.Set.Addresses)
	detail := fmt.Sprintf("%d of %d addresses are here, %s", present, total, adverts)
	switch {
	case links.Links == nil:
		return unknown, "the addresses of this machine are not known yet"
	case speaks && (present > 0 || total == 0):
		return master, detail
	case speaks && quiet <= s.Config.AdvertInterval+s.Config.AdvertInterval/2:
		return unknown, detail // it is about to add them, or has others
	case present < total || total == 0:
		return backup, detail
	case s.Config.Unicast && !heard:
		return master, detail // its adverts may leave by other interfaces than the one that is listened to
	}
	return silent, detail
}

// at names the interface that has the address now, "" for none. Where it sits must be
// as configured only for lo: a real server has the addresses there on purpose.
func at(links host.State, a host.Address) string {
	if l := links.Link(a.Dev); l != nil && slices.ContainsFunc(l.Addrs, func(x host.Addr) bool { return x.Prefix.Addr() == a.Prefix.Addr() }) {
		return a.Dev
	}
	if a.Prefix.Addr().IsLinkLocalUnicast() {
		return ""
	}
	for name, l := range links.Links {
		if !l.Loopback && slices.ContainsFunc(l.Addrs, func(x host.Addr) bool { return x.Prefix.Addr() == a.Prefix.Addr() }) {
			return name
		}
	}
	return ""
}

// differences tells how an advert of the program beside differs from those that this
// configuration makes. The priority is not compared: trackers change it.
func differences(c *vrrp.Config, a *packet.Advert, refused packet.DropReason) []string {
	if refused != packet.DropNone {
		return []string{fmt.Sprintf("vipd would refuse its adverts (%v), and it probably vipd's; compare version, authentication and auth_hmac", refused)}
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if a.Version != c.Version {
		say("its adverts are of version %d, vipd's would be of version %d; compare vrrp_version and version", a.Version, c.Version)
	}
	if a.Interval != c.AdvertInterval {
		say("it sends every %v, vipd would every %v; compare advert_int", a.Interval, c.AdvertInterval)
	}
	if more := without(a.Addrs, c.Addresses); len(more) > 0 {
		say("its adverts list %s, which virtual_ipaddress does not", addresses(more))
	}
	if more := without(c.Addresses, a.Addrs); len(more) > 0 {
		say("its adverts do not list %s, which virtual_ipaddress does", addresses(more))
	}
	if a.Version == packet.Version2 && c.Version == packet.Version2 && !c.IPv6 {
		var ours packet.Advert
		ours.SetPassword(c.AuthPass)
		if ours.AuthType != a.AuthType || ours.AuthData != a.AuthData {
			say("its password is not that of this file; compare authentication")
		}
	}
	if a.Version == packet.Version3 && c.Version == packet.Version3 && !c.IPv6 && a.Form != c.Form {
		say("its checksums are of the other form; set v3_checksum_as_v2 = %t", a.Form == packet.FormPlain)
	}
	if ours := c.Auth != nil && c.Auth.Mode != vrrp.AuthReceiveOnly; a.Signed != ours {
		say("its adverts are signed: %t, vipd's would be: %t; compare auth_hmac", a.Signed, ours)
	}
	return out
}

// without returns the addresses of list that are not in other.
func without(list, other []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool { return slices.Contains(other, a) })
}

// addresses lists a few addresses and counts the rest.
func addresses(list []netip.Addr) string {
	text := make([]string, len(list))
	for i, a := range list {
		text[i] = a.String()
	}
	return few(text)
}

// few joins a few words and counts the rest.
func few(list []string) string {
	const most = 5
	if n := len(list) - most; n > 1 {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(list, ", ")
}
