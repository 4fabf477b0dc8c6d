package router

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
)

// instance is one virtual router at work.
type instance struct {
	cfg     Instance
	machine *vrrp.Machine
	advert  packet.Advert // sent from here, again and again
	home    string        // the interface it is on; "": it has none now
	source  netip.Addr    // last usable source address: priority 0 still needs one when it is gone
	own     vrrp.Env      // without what others of the group add
	env     vrrp.Env      // what the machine knows
	group   *group        // nil: none
	joining bool          // a reload put it into a group whose state it does not have yet
	envSent bool          // the machine was told
	weights []string      // trackers whose weight is in force

	foughtUntil time.Time
	foughtKind  string
	foughtOver  string
	mismatch    bool      // the last advert listed other addresses, and that was noted
	listenUntil time.Time // a late tick waits until then for adverts in the sockets
	reasserted  time.Time // last burst that a losing advert led to, its own or one of its group's

	sent, sendErrors, receivedCount, masters uint64
	drops                                    [packet.NumDropReasons]uint64
	foreign                                  netip.Addr
	foreignAt, twinAt                        time.Time
	unproven                                 [packet.NumDropReasons]uint64
	patchedCount                             uint64
	patchedFrom                              []netip.Addr // peers noted for it
	otherForm                                netip.Addr   // last peer noted for its form of checksum
	otherFormAt                              time.Time
	unsent                                   int    // adverts in a row that could not be sent
	unsentWhy                                string // the last of them
}

func newInstance(cfg Instance) *instance {
	return &instance{cfg: cfg, machine: vrrp.New(cfg.Config)}
}

func (in *instance) status() InstanceStatus {
	s := InstanceStatus{
		Name: in.cfg.Name, Config: in.cfg.Config, Interface: cmp.Or(in.cfg.Interface, in.home), Status: in.machine.Status(), Source: in.source,
		Weights: strings.Join(in.weights, "; "),
		Sent:    in.sent, SendError: in.sendErrors, Received: in.receivedCount, Masters: in.masters,
		Patched: in.patchedCount, Drops: map[packet.DropReason]uint64{}, Foreign: in.foreign, ForeignAt: in.foreignAt,
		TwinAt: in.twinAt,
	}
	if in.unsent >= 3 && s.Status.State == vrrp.Master {
		s.Unsent = in.unsentWhy
	}
	for reason, n := range in.unproven {
		if n > 0 {
			if s.Unproven == nil {
				s.Unproven = map[packet.DropReason]uint64{}
			}
			s.Unproven[packet.DropReason(reason)] = n
		}
	}
	for reason, n := range in.drops {
		if n > 0 {
			s.Drops[packet.DropReason(reason)] = n
		}
	}
	return s
}

// feed gives an event to the machine and carries out what it asks for.
func (r *Router) feed(in *instance, ev vrrp.Event) {
	r.feedAt(in, time.Now(), ev)
}

// feedAt is feed with the time of the event.
func (r *Router) feedAt(in *instance, now time.Time, ev vrrp.Event) {
	for _, a := range in.machine.Handle(now, ev) {
		r.execute(in, now, a)
	}
	r.await(in)
	if at, ok := in.machine.Deadline(); ok {
		r.wakeFor(in, at)
	}
}

// execute carries out one action.
func (r *Router) execute(in *instance, now time.Time, a vrrp.Action) {
	name := in.cfg.Name
	switch a.Kind {
	case vrrp.SendAdvert:
		r.sendAdvert(in, now, a.Priority)
	case vrrp.AddAddresses:
		r.ports.Addresses.Want(name, true)
	case vrrp.RemoveAddresses:
		r.ports.Addresses.Want(name, false)
	case vrrp.Announce:
		r.ports.Announcer.Announce(name, a.Burst)
		if a.Burst == vrrp.BurstLowerPrio {
			r.reassertGroup(in, now)
			own := in.machine.Status().EffectivePriority
			r.ports.Observer.Priority(PriorityEvent{Instance: name, State: vrrp.Master, From: own, To: own, Lesser: true})
		}
	case vrrp.StopAnnounce:
		r.ports.Announcer.Stop(name)
	case vrrp.Transition:
		if a.To == vrrp.Master {
			in.masters++
		}
		r.ports.Observer.Transition(TransitionEvent{
			Instance: name, From: a.From, To: a.To, Reason: a.Reason,
			Priority: in.machine.Status().EffectivePriority, At: now,
		})
		if a.From == vrrp.Fault && a.To != vrrp.Init && in.cfg.Unicast {
			r.announceSource(in)
		}
		r.groupChanged(in, a, now)
		r.leave()
	case vrrp.Note:
		r.note(name, now, a.Reason)
	}
}

// announceSource announces the address that unicast is sent from.
func (r *Router) announceSource(in *instance) {
	if l, ok := r.links[in.cfg.Interface]; ok && slices.Contains(l.Addrs, in.source) {
		r.ports.Announcer.Source(in.cfg.Name, in.cfg.Interface, in.source)
		return
	}
	if name := r.holder(in.source); name != "" {
		r.ports.Announcer.Source(in.cfg.Name, name, in.source)
	}
}

// sendAdvert sends an advert from the last known source.
func (r *Router) sendAdvert(in *instance, now time.Time, priority uint8) {
	if priority == packet.PriorityStop && r.wouldWait(in) {
		return
	}
	in.machine.Advert(now, &in.advert, priority)
	r.fit(in, now)
	err := r.ports.Sender.SendAdvert(in.cfg.Name, in.source, &in.advert)
	if err == nil {
		in.sent++
		in.unsent = 0
		return
	}
	in.sendErrors++
	in.unsent++
	in.unsentWhy = err.Error()
	if priority != packet.PriorityStop { // resigning on a dead link cannot work
		r.note(in.cfg.Name, now, "an advert could not be sent: "+err.Error())
	}
}

// fit leaves out of an advert the addresses that its packet has no room for on the link
// (an MTU that was lowered): without an advert another router would take over as well.
func (r *Router) fit(in *instance, now time.Time) {
	l, ok := r.links[in.cfg.wire()]
	if in.cfg.wire() == "" {
		l, ok = r.links[in.home]
	}
	if !ok || l.MTU == 0 {
		return
	}
	mtu := l.MTU
	if in.advert.Signed {
		mtu -= packet.TrailerLen
	}
	room := packet.AddrsMax(in.advert.Version, in.cfg.IPv6, mtu)
	if room >= len(in.advert.Addrs) {
		return
	}
	if r.limit.allow(limitKey{instance: in.cfg.Name, text: "MTU"}, now) {
		r.note(in.cfg.Name, now, fmt.Sprintf("the MTU of %d on %s leaves room for %d of the %d addresses in an advert: the others move along without being named, as those of virtual_ipaddress_excluded do; raise the MTU, or move them there on all directors", l.MTU, in.cfg.ground(), room, len(in.advert.Addrs)))
	}
	in.advert.Addrs = in.advert.Addrs[:room]
}

// wouldWait reports that an advert to the peers would be kept by a link without
// carrier: the kernel asks for their link-layer addresses, in vain, and sends the
// advert when the link is back. A resignation is long out of date by then, and
// the first adverts after it would have to wait for the end of the asking, too.
func (r *Router) wouldWait(in *instance) bool {
	l, ok := r.links[r.home(in)]
	if !ok || l.Carrier || !in.cfg.Unicast {
		return false // by multicast it is lost at once
	}
	return !slices.ContainsFunc(in.cfg.Peers, func(p vrrp.Peer) bool {
		return !slices.ContainsFunc(l.Nets, func(n netip.Prefix) bool { return n.Contains(p.Address) })
	})
}

// note reports a text, the same one at most once a minute.
func (r *Router) note(instance string, now time.Time, text string) {
	if r.limit.allow(limitKey{instance: instance, text: text}, now) {
		r.ports.Observer.Note(Note{Instance: instance, Text: text})
	}
}
