package router

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

// Instance is one virtual router as configured. One that speaks unicast from a Source that is not link-local may have
// no Interface: it is on whichever interface has that address, and no state of an interface matters to it.
type Instance struct {
	vrrp.Config
	Group      netip.Addr // multicast destination; of a router that speaks unicast: what its peers must not use
	SyncGroup  string     // the sync group it is a member of; "": none
	Source     netip.Addr // configured source address; invalid: the interface's own
	UnicastTTL uint8      // TTL or hop limit of adverts to peers; 0: 255
	PatchedToo bool       // accept packet.FormPatched from peers
	// VMAC is the link on Interface that has the virtual MAC; "": none. Adverts leave and arrive by it, with the source
	// address of Interface, unless XmitBase says by Interface itself. The instance needs both.
	VMAC            string
	XmitBase        bool
	DontTrack       bool // an Interface or VMAC that is down is no fault
	TrackInterfaces []Track
	TrackScripts    []Track
	TrackFiles      []Track
	TrackProcesses  []Track
}

// Equal reports whether a and b are the same in every field.
func (a *Instance) Equal(b *Instance) bool {
	return a.Config.Equal(&b.Config) && a.Group == b.Group && a.SyncGroup == b.SyncGroup && a.Source == b.Source &&
		a.UnicastTTL == b.UnicastTTL && a.PatchedToo == b.PatchedToo &&
		a.VMAC == b.VMAC && a.XmitBase == b.XmitBase && a.DontTrack == b.DontTrack &&
		slices.Equal(a.TrackInterfaces, b.TrackInterfaces) && slices.Equal(a.TrackScripts, b.TrackScripts) &&
		slices.Equal(a.TrackFiles, b.TrackFiles) && slices.Equal(a.TrackProcesses, b.TrackProcesses)
}

// wire is the link that adverts leave and arrive by.
func (a *Instance) wire() string {
	if a.VMAC != "" && !a.XmitBase {
		return a.VMAC
	}
	return a.Interface
}

// ground is where adverts leave and arrive, for texts: a link, or an address of our own.
func (a *Instance) ground() string {
	if a.Interface == "" {
		return a.Source.String()
	}
	return a.wire()
}

// Track is one line of track_interface, track_script, track_file or track_process.
type Track struct {
	Name    string
	Weight  int  // 0: FAULT while bad; > 0: added while good; < 0: subtracted while bad; of a file: what its number is multiplied with
	Reverse bool // weight 0: FAULT while good; otherwise the weight's sign is turned
}

// Link is the state of one network interface. An interface that is missing from
// the map given to HostState does not exist.
type Link struct {
	Index   int        // changes when the interface is re-created
	Up      bool       // IFF_UP
	Carrier bool       // IFF_RUNNING
	MTU     int        // bytes of an IP packet; 0: not known
	Source4 netip.Addr // primary IPv4 address that is not one of our VIPs; invalid: none
	Source6 netip.Addr // link-local address that is not tentative, without zone, and not one of our VIPs; invalid: none
	Addrs   []netip.Addr
	Nets    []netip.Prefix // networks that its addresses make it a part of, single hosts left out; may be nil
	// Tentative6 is a link-local address that would be the source but for
	// duplicate address detection (RFC 4862 §5.4), which has not ended yet or,
	// with Duplicate6, found another owner; invalid: none.
	Tentative6 netip.Addr
	Duplicate6 bool
	// Unready are those of Addrs of which the same is true: with the value true
	// another owner was found. May be nil.
	Unready map[netip.Addr]bool
	// Parent is the interface that a link with a virtual MAC is on; it has the delays of that one. Problem says why
	// such a link is not there, or not ours.
	Parent  string
	Problem string
	hold    string // why it does not count as up yet
}

// Endpoint is what one instance needs of the sockets.
type Endpoint struct {
	Instance  string
	Interface string // "": none, and there is no multicast to watch
	Index     int    // of Interface now
	Parent    int    // index of the interface below, when Interface is a link with a virtual MAC; else 0
	IPv6      bool
	Group     netip.Addr
	VRID      uint8

	// With Local valid the instance speaks unicast, from and to that address: to
	// Peers, with TTL. Adverts that come by multicast all the same are then wanted
	// as well, to be refused by name.
	Local      netip.Addr
	Peers      []netip.Addr
	TTL        uint8
	PatchedToo bool // accept packet.FormPatched from Peers

	Keys packet.Keys // of auth_hmac; nil: none
}

// Equal reports whether a and b are the same in every field.
func (a Endpoint) Equal(b Endpoint) bool {
	lists := slices.Equal(a.Peers, b.Peers) && maps.EqualFunc(a.Keys, b.Keys, bytes.Equal)
	return lists && a.Instance == b.Instance && a.Interface == b.Interface && a.Index == b.Index && a.Parent == b.Parent && a.IPv6 == b.IPv6 &&
		a.Group == b.Group && a.VRID == b.VRID && a.Local == b.Local && a.TTL == b.TTL && a.PatchedToo == b.PatchedToo
}

// Unicast is the key of the socket for the unicast of the endpoint.
func (a Endpoint) Unicast() socket.Key { return socket.UnicastKey(a.Interface, a.Index, a.Local) }

// Multicast is the key of the socket for the multicast group.
func (a Endpoint) Multicast() socket.Key {
	return socket.Key{Interface: a.Interface, Index: a.Index, Parent: a.Parent, IPv6: a.IPv6, Group: a.Group}
}

// Ports are the outside world. Every method is called from the router's goroutine
// and must return at once: queue whatever takes time.
type Ports struct {
	Sender    Sender
	Addresses Addresses
	Announcer Announcer
	Observer  Observer
	Waiter    Waiter // nil: the standard library's timer, which may be a millisecond late
}

// ErrOpening says that a socket is being opened: its instances wait in silence.
var ErrOpening = errors.New("the VRRP socket is being opened")

// Sender sends adverts.
type Sender interface {
	// SendAdvert sends a from src, to the group or to every peer. The advert may be
	// used until it returns.
	SendAdvert(instance string, src netip.Addr, a *packet.Advert) error
	// Sync has sockets opened and closed so that exactly the endpoints are served.
	// It returns ErrOpening for each instance whose socket is still to be opened (the
	// end of that is told through SocketsChanged) and another error for one whose
	// socket could not be. It is called when the set changes, also when an Index
	// changes, after SocketsChanged, and once a second while there are errors.
	Sync(endpoints []Endpoint) map[string]error
	// Listening returns nil while adverts for the instance can be heard. An error
	// means that its interface is gone, whatever HostState said last.
	Listening(instance string) error
}

// Addresses puts the virtual addresses of an instance on the host, or off it.
type Addresses interface {
	Want(instance string, present bool)
}

// Announcer tells the network where the virtual addresses are.
type Announcer interface {
	Announce(instance string, b vrrp.Burst)
	Stop(instance string) // drops what is queued and planned
	// Source announces the address that an instance speaks unicast from, once: its
	// peers may have forgotten where it is while it was in FAULT.
	Source(instance, iface string, addr netip.Addr)
}

// Observer hears what happened.
type Observer interface {
	Transition(t TransitionEvent)
	// Dropped reports a received advert that was not acted on, or should not be, at most once a
	// minute for an instance, reason and source; Status counts all of them.
	Dropped(d Drop)
	// Priority reports an effective priority that trackers have changed, or that an
	// advert of a lower one was heard with.
	Priority(p PriorityEvent)
	// Note reports something an operator should know, at most once a minute for an
	// instance and text.
	Note(n Note)
}

// Waiter is what the router waits in. Wait returns at the time until (zero: never),
// and when Wake is called, also if that was before it; it may return early, and may
// call Take. It may leave adverts unread for the time patience, if that spares work;
// 0: it may not. Wake is called from any goroutine. An error of Wait ends Run.
type Waiter interface {
	Wait(until time.Time, patience time.Duration) error
	Wake()
}

// TransitionEvent is one change of state, of an instance or of a sync group.
type TransitionEvent struct {
	Instance string // "": that of a sync group
	Group    string // "": that of an instance
	From, To vrrp.State
	Reason   string
	Priority uint8 // effective; of a group 0
	At       time.Time
}

// PriorityEvent is a change of the effective priority by trackers, or a MASTER that
// heard of a lower one.
type PriorityEvent struct {
	Instance string
	State    vrrp.State
	From, To uint8
	Lesser   bool   // nothing changed: an advert of a lower priority was heard and is answered
	Weights  string // those in force, "eth1 is down (-10)"; "": none
}

// Drop is a received advert that was not acted on.
type Drop struct {
	Instance string // "": no instance with that VRID on the interface
	Source   netip.Addr
	Reason   packet.DropReason
	Count    uint64 // drops of this instance and reason so far
	// Accepted says that it was acted on all the same: it has no good signature, and
	// the mode of auth_hmac lets it pass.
	Accepted bool
}

// Note is something an operator should know.
type Note struct {
	Instance string
	Text     string
}

// InstanceStatus is a snapshot of one instance.
type InstanceStatus struct {
	Name      string
	Config    vrrp.Config
	Interface string // that of Config, or the one that has the source address now; "": none has it
	Status    vrrp.Status
	Waiting   string     // why it does not take over although its listening is over; "": it is not
	Weights   string     // trackers that change the priority now, "eth1 is down (-10)"; "": none
	Source    netip.Addr // last known source address
	Sent      uint64     // adverts sent
	SendError uint64     // adverts that could not be sent
	Unsent    string     // why a MASTER's last adverts, three or more, could not be sent; "": they could
	Received  uint64     // adverts acted on
	Masters   uint64     // times the instance became MASTER
	Patched   uint64     // of those: with a checksum in packet.FormPatched
	// Unproven counts, of those, the ones without good signature, in a mode of
	// auth_hmac that accepts them; nil: none.
	Unproven map[packet.DropReason]uint64
	Drops    map[packet.DropReason]uint64
	// Foreign is the last sender on our VRID that shares no address with us, the
	// sign of another cluster with the same VRID; ForeignAt is when it was heard.
	Foreign   netip.Addr
	ForeignAt time.Time
	// TwinAt is when an advert was heard that another sent from our source address.
	TwinAt time.Time
}
