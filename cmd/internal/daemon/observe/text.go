package observe

import (
	"fmt"
	"strings"
	"time"

	"vipd/garp"
	"vipd/vrrp"
	"vipd/vrrp/host"
)

// told is the line about a transition: the steps are in the order of the protocol.
func (s *subject) told(from, to vrrp.State, links host.State) string {
	switch {
	case to == vrrp.Master:
		steps := []string{"send an advert"}
		if s.plan.add && len(s.Set.Addresses) > 0 {
			if s.Set.NoAccept {
				steps = append(steps, "refuse packets to "+s.refused()+" (no_accept)")
			}
			steps = append(steps, "add "+s.places(links, true))
		}
		if s.plan.add {
			steps = append(steps, s.paths(true)...)
		}
		if s.plan.announce && len(s.Set.Addresses) > 0 {
			steps = append(steps, s.announcement(vrrp.BurstMaster))
		}
		return "would become MASTER: " + strings.Join(steps, ", ")
	case from == vrrp.Master:
		var steps []string
		if s.plan.resign {
			steps = append(steps, "send priority 0")
		}
		steps = append(steps, s.paths(false)...)
		if len(s.Set.Addresses) > 0 {
			steps = append(steps, "remove "+s.places(links, false))
			if s.Set.NoAccept {
				steps = append(steps, "refuse packets to them no longer")
			}
		}
		if s.plan.last {
			steps = append(steps, "send a last advert")
		}
		return fmt.Sprintf("would leave MASTER for %v: %s", to, strings.Join(steps, ", "))
	}
	return fmt.Sprintf("would go %v -> %v", from, to)
}

// places lists the addresses and where they belong, with those that are as they
// should be already, for another program is responsible.
func (s *subject) places(links host.State, wanted bool) string {
	var missing, done []string
	for _, a := range s.Set.Addresses {
		text := a.Prefix.String() + " "
		if wanted {
			text += "to " + s.link(a.Dev)
		} else {
			text += "from " + s.link(a.Dev)
		}
		if (at(links, a) != "") == wanted {
			done = append(done, text)
		} else {
			missing = append(missing, text)
		}
	}
	return apart(missing, done, wanted)
}

// announcement says how the addresses would be announced.
func (s *subject) announcement(b vrrp.Burst) string {
	t := s.Announce.Timing
	repeat, delay := t.MasterRepeat, t.MasterDelay
	if b == vrrp.BurstLowerPrio {
		repeat, delay = t.LowerPrioRepeat, t.LowerPrioDelay
	}
	if repeat == 0 {
		return "announce nothing"
	}
	text := fmt.Sprintf("announce %s by %s", plural(len(s.Set.Addresses), "address", "addresses"), s.frames(repeat))
	if delay > 0 {
		text += fmt.Sprintf(", again after %v", delay)
	}
	if b == vrrp.BurstMaster && t.Refresh > 0 {
		text += fmt.Sprintf(", then by %s every %v", plural(max(1, t.RefreshRepeat), "frame", "frames"), t.Refresh.Round(time.Millisecond))
	}
	return text
}

// frames names the frames of each address in a burst.
func (s *subject) frames(repeat int) string {
	arp, na := false, false
	for _, a := range s.Set.Addresses {
		arp, na = arp || a.Prefix.Addr().Is4(), na || a.Prefix.Addr().Is6()
	}
	kind := map[garp.Form]string{garp.Request: "ARP", garp.Reply: "ARP replies", garp.Both: "ARP requests and replies"}[s.Announce.Form]
	switch {
	case na && arp:
		kind += " or NA"
	case na:
		kind = "NA"
	}
	return fmt.Sprintf("%d %s each", repeat, kind)
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
