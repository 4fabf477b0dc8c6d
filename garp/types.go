package garp

import (
	"net/netip"
	"time"
)

// Kind is the protocol of an announcement. The two are paced apart.
type Kind uint8

// The kinds of announcement.
const (
	ARP Kind = iota // gratuitous ARP, for an IPv4 address
	NA              // unsolicited neighbour advertisement, for an IPv6 address
)

// KindOf tells how an address is announced.
func KindOf(a netip.Addr) Kind {
	if a.Unmap().Is4() {
		return ARP
	}
	return NA
}

// String is "arp" or "na".
func (k Kind) String() string {
	if k == NA {
		return "na"
	}
	return "arp"
}

// Form is the operation code of a gratuitous ARP frame.
type Form uint8

// The forms. Request is what RFC 9568 §8.1.2 asks for (RFC 5227 §3 tells why) and
// the default. Equipment that learns from one of the two only exists for either:
// with Both, each announcement is a request and, as a frame of its own in the
// schedule, a reply. There is one form of neighbour advertisement.
const (
	Request Form = iota
	Reply
	Both // of an instance; a frame is one of the others
)

// Burst is the reason of an announcement of all addresses of an instance.
type Burst uint8

// The bursts.
const (
	BurstMaster    Burst = iota // the instance became MASTER
	BurstLowerPrio              // a MASTER heard a losing advert
)

// String is "master" or "lower_prio".
func (b Burst) String() string {
	if b == BurstLowerPrio {
		return "lower_prio"
	}
	return "master"
}

// MAC is an Ethernet address.
type MAC [6]byte

// Timing holds the garp_* settings of an instance. Its fields are those of
// the configuration, in the same order, so that one converts to the other.
type Timing struct {
	MasterDelay     time.Duration // garp_master_delay, second burst; 0: none
	MasterRepeat    int           // garp_master_repeat, frames per VIP and burst, at least 1
	Refresh         time.Duration // garp_master_refresh; 0: none
	RefreshRepeat   int           // garp_master_refresh_repeat, at least 1
	LowerPrioDelay  time.Duration // garp_lower_prio_delay; 0: none
	LowerPrioRepeat int           // garp_lower_prio_repeat; 0: none
	GARPInterval    time.Duration // garp_interval, gap between ARP frames of one interface; 0: none
	GNAInterval     time.Duration // gna_interval, the same for neighbour advertisements
	Extra           time.Duration // garp_extra_if, time between single frames on other interfaces; 0: none
	ExtraAll        bool          // garp_extra_if all: on any interface, else on those with a virtual MAC
}

// Group is a set of interfaces that share one gap between frames, as those of one
// switch do. For them its gaps count, not those of instances.
type Group struct {
	Interfaces   []string // physical; an interface is in one group at most
	GARPInterval time.Duration
	GNAInterval  time.Duration
}

// Target is one virtual address of an instance.
type Target struct {
	Instance  string
	Address   netip.Addr
	Interface string // where the address sits; "" is the instance's interface
}

// Instance is what has to be known of a virtual router to announce it.
type Instance struct {
	Name      string
	Interface string // that adverts leave by; announces addresses that sit on lo or a NOARP interface
	Adverts   string // link with the virtual MAC that adverts bear; "": they bear that of Interface
	Form      Form
	Timing    Timing
	Targets   []Target // every virtual address, excluded ones too, in announcement order
}

// Link is the state of an interface as announcements need it.
type Link struct {
	Name   string
	Index  int    // 0: the interface is gone
	MAC    MAC    // of the moment
	ARP    bool   // neither loopback nor NOARP, and Ethernet: announcements make sense on it
	Router bool   // forwards IPv6: the Router flag of neighbour advertisements
	Up     bool   // IFF_UP and IFF_RUNNING
	VMAC   bool   // its address is a virtual router's (00:00:5e:00:01|02:VRID): nothing but us teaches it to switches
	Base   string // the physical interface below (macvlan, ipvlan) that shares its pacing; "": itself
}

// InstanceStatus is what the announcer did and will do for one instance.
// Counters count frames since the instance was first configured.
type InstanceStatus struct {
	Name        string
	Active      bool      // announcing: the instance is MASTER
	Targets     int       // configured addresses
	Present     int       // of these, in the kernel and thus announced
	Pending     int       // frames queued
	Sent        uint64    // frames handed to the kernel
	Retried     uint64    // frames that found the send queue full (ENOBUFS) and were sent again
	Dropped     uint64    // frames given up: link down, gone or without ARP, or a send error
	Completed   uint64    // times that an address had all the frames asked for
	NextRefresh time.Time // zero: none
	LastSent    time.Time // zero: never
	LastError   string    // reason of the last dropped frame; "": none
}
