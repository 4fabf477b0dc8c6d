package vrrp

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vipd/vrrp/packet"
)

// State is the state of one virtual router.
type State uint8

// The states of RFC 9568 §6.4 (Active is called MASTER here, as in RFC 3768 and
// by every operator), and FAULT for a router that cannot take part.
const (
	Init State = iota
	Backup
	Master
	Fault
)

// String returns the name operators know: "INIT", "BACKUP", "MASTER", "FAULT".
func (s State) String() string {
	switch s {
	case Init:
		return "INIT"
	case Backup:
		return "BACKUP"
	case Master:
		return "MASTER"
	case Fault:
		return "FAULT"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// OwnerPriority is the priority of the address owner (RFC 9568 §5.2.4). An owner
// is immune to trackers, takes over without listening and is never held back by
// NoPreempt.
const OwnerPriority = 255

// Config is what one virtual router is told. A Machine keeps its own copy, so the
// caller may change a Config after handing it over.
type Config struct {
	Name              string
	Interface         string        // "": by unicast it may have none
	VRID              uint8         // 1..255
	Version           uint8         // 2 or 3
	IPv6              bool          // family of the addresses, the source and the group
	Priority          uint8         // 1..255; 255 is the address owner
	AdvertInterval    time.Duration // v2: whole seconds 1..255; v3: 10 ms..40.95 s in steps of 10 ms
	DownTimerAdverts  int           // missed adverts before a takeover; 0 means 3
	NoPreempt         bool          // BACKUP accepts lower priorities too; void for an owner and with WantMaster
	WantMaster        bool          // state MASTER in the configuration: voids NoPreempt, shortens nothing
	Grouped           bool          // member of a sync group: an owner, too, waits for a tick before it is MASTER
	PreemptDelay      time.Duration // a master of lower priority is put up with for so long; void with NoPreempt, with WantMaster and for an owner
	SyncDelay         time.Duration // the same, for the connections to be learned: with WantMaster, too; void with NoPreempt and for an owner
	LowerPrioNoAdvert bool          // a losing advert is not answered with an advert
	IgnoreAdverts     bool          // an owner does not listen to others' adverts
	LatePriority      uint8         // with NoPreempt: a MASTER frozen for so long that a router of this priority took over listens first; 0: it does not
	SkipCheckAddr     bool          // adverts are accepted whatever addresses they list
	Addresses         []netip.Addr  // advertised addresses, in the order sent
	AuthPass          string        // v2 IPv4 simple password, at most 8 bytes count; "" is none
	Form              packet.Form   // checksum form to send
	Unicast           bool          // adverts go to and come from Peers, never a multicast group
	Peers             []Peer
	AnySource         bool  // by unicast, adverts of others than Peers count too
	Auth              *Auth // nil: adverts are not signed; not changed once it is here
	// SharedMAC says that adverts bear the virtual MAC (RFC 9568 §7.3), the same on all directors. Who has given way
	// sends nothing with it: a bridge would look for the addresses here again.
	SharedMAC bool
}

// place is the interface, for texts.
func (c *Config) place() string {
	if c.Interface == "" {
		return "this machine"
	}
	return c.Interface
}

// Peer is another director that is spoken to by unicast.
type Peer struct {
	Address        netip.Addr
	MinTTL, MaxTTL uint8 // of adverts from it; MaxTTL 0 means 255
}

// Owner reports whether the router owns its addresses (RFC 9568 §5.2.4).
func (c *Config) Owner() bool { return c.Priority == OwnerPriority }

// SameRouter reports whether a and b name the same virtual router on the wire:
// same VRID, version, family and interface. A machine can be reconfigured only
// within that; anything else needs a new machine.
func (c *Config) SameRouter(b *Config) bool {
	return c.VRID == b.VRID && c.Version == b.Version && c.IPv6 == b.IPv6 && c.Interface == b.Interface
}

// Equal reports whether a and b are the same in every field.
func (c *Config) Equal(b *Config) bool {
	return c.scalars() == b.scalars() && slices.Equal(c.Addresses, b.Addresses) && slices.Equal(c.Peers, b.Peers) && c.Auth.Equal(b.Auth)
}

// scalars is Config without its slices, comparable with ==.
type scalars struct {
	name, iface, pass                               string
	vrid, version, priority, late                   uint8
	interval, delay, sync                           time.Duration
	adverts                                         int
	ipv6, nopreempt, master, noadvert, skip, ignore bool
	unicast, anySource, sharedMAC                   bool
	grouped                                         bool
	form                                            packet.Form
}

func (c *Config) scalars() scalars {
	return scalars{
		name: c.Name, iface: c.Interface, pass: c.AuthPass, vrid: c.VRID, version: c.Version, priority: c.Priority,
		interval: c.AdvertInterval, adverts: c.DownTimerAdverts, ipv6: c.IPv6, nopreempt: c.NoPreempt,
		master: c.WantMaster, noadvert: c.LowerPrioNoAdvert, skip: c.SkipCheckAddr, form: c.Form,
		delay: c.PreemptDelay, sync: c.SyncDelay, ignore: c.IgnoreAdverts, late: c.LatePriority,
		unicast: c.Unicast, anySource: c.AnySource,
		grouped: c.Grouped, sharedMAC: c.SharedMAC,
	}
}

// Env is everything around a virtual router that decides whether it may take part
// and how strongly. It is state, never an edge: each EventEnv carries all of it.
type Env struct {
	Source  netip.Addr // address adverts are sent from; breaks ties (RFC 9568 §6.4.3)
	Faults  []string   // why the router cannot take part, in the operator's words; empty: it can
	Pending string     // what is still to come ("the first result of script chk"): do not start; empty: nothing
	Weight  int        // sum of the tracker weights in force
	Ear     int        // what adverts are heard by: another number when it was made anew; 0: nothing, for now
}

// Equal reports whether a and b are the same environment.
func (e *Env) Equal(b *Env) bool {
	return e.Source == b.Source && e.Pending == b.Pending && e.Weight == b.Weight && e.Ear == b.Ear && slices.Equal(e.Faults, b.Faults)
}

// EventKind says what happened.
type EventKind uint8

// The events a Machine understands.
const (
	EventEnv      EventKind = iota // the environment is now Event.Env
	EventAdvert                    // Event.Advert arrived from Event.From; Admit already agreed
	EventTick                      // the deadline was reached
	EventConfig                    // the configuration is now Event.Config, with Event.Weight
	EventYield                     // a MASTER gives way, because of Event.Reason
	EventShutdown                  // give everything up, a MASTER its addresses within Event.Wait; final
)

// String returns the kind's name.
func (k EventKind) String() string {
	switch k {
	case EventEnv:
		return "Env"
	case EventAdvert:
		return "Advert"
	case EventTick:
		return "Tick"
	case EventConfig:
		return "Config"
	case EventYield:
		return "Yield"
	case EventShutdown:
		return "Shutdown"
	}
	return fmt.Sprintf("EventKind(%d)", uint8(k))
}

// Event is one input of a Machine. Only the fields its Kind names are read.
type Event struct {
	Kind   EventKind
	Env    Env
	Advert *packet.Advert // read during Handle only, never kept
	From   netip.Addr
	Reason string
	Config *Config       // copied
	Weight *int          // EventConfig: the sum of the tracker weights from now on; nil: as before
	Wait   time.Duration // EventShutdown: how long a MASTER keeps the addresses for its successor at most; 0: not at all
}

// ActionKind says what is to be done.
type ActionKind uint8

// The actions a Machine asks for.
const (
	SendAdvert      ActionKind = iota // send an advert of Action.Priority now
	AddAddresses                      // the virtual addresses are wanted on this host
	RemoveAddresses                   // the virtual addresses are not wanted on this host
	Announce                          // tell the network that the addresses are here (GARP, NA)
	StopAnnounce                      // drop every announcement still queued or planned
	Transition                        // the state changed from Action.From to Action.To
	Note                              // something that should not happen did; nothing was changed
)

// Burst says which announcement settings apply.
type Burst uint8

// The bursts.
const (
	BurstMaster    Burst = iota // on becoming MASTER (garp_master_*)
	BurstLowerPrio              // another router claimed the addresses too (garp_lower_prio_*)
)

// String returns "master" or "lower_prio".
func (b Burst) String() string {
	if b == BurstLowerPrio {
		return "lower_prio"
	}
	return "master"
}

// Action is one output of a Machine. The order of a list of actions is the order
// of the protocol: carry them out one after the other.
type Action struct {
	Kind     ActionKind
	Priority uint8  // SendAdvert: 0 resigns
	From, To State  // Transition
	Reason   string // Transition, Note
	Burst    Burst  // Announce
}

// String returns the action as scenario files and logs show it.
func (a Action) String() string {
	switch a.Kind {
	case SendAdvert:
		return fmt.Sprintf("SendAdvert priority=%d", a.Priority)
	case AddAddresses:
		return "AddAddresses"
	case RemoveAddresses:
		return "RemoveAddresses"
	case Announce:
		return "Announce " + a.Burst.String()
	case StopAnnounce:
		return "StopAnnounce"
	case Transition:
		return fmt.Sprintf("Transition %s -> %s: %s", a.From, a.To, a.Reason)
	case Note:
		return "Note: " + a.Reason
	}
	return fmt.Sprintf("ActionKind(%d)", uint8(a.Kind))
}

// Status is a snapshot of a Machine.
type Status struct {
	State             State
	Since             time.Time // when State was entered; zero before the first transition
	Reason            string    // why State was entered, or why FAULT is not left
	Priority          uint8     // configured
	EffectivePriority uint8     // after trackers
	MasterAddress     netip.Addr
	MasterPriority    uint8         // of MasterAddress; own in MASTER
	MasterInterval    time.Duration // advert interval of the master: learned under v3, own otherwise
	Deadline          time.Time     // next advert in MASTER, takeover in BACKUP; zero otherwise
	AddressMismatch   bool          // the last admitted advert listed other addresses than ours
	LastHeard         time.Time     // when the last admitted advert was handled; zero: never
	PreemptAt         time.Time     // when a master of lower priority is no longer put up with (PreemptDelay); zero: not waiting
}
