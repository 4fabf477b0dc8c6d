package socket

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"vipd/vrrp/packet"
)

// The multicast groups of VRRP (RFC 9568 §5.1.1.2, §5.1.2.2).
var (
	Group4 = netip.AddrFrom4([4]byte{224, 0, 0, 18})
	Group6 = netip.AddrFrom16([16]byte{0xff, 0x02, 15: 0x12})
)

// Key says what a socket is for: multicast on an interface, with Group, or
// unicast to and from an own address, with Local. Two sockets of one key would
// each receive every packet.
type Key struct {
	// Interface is the name, for messages; Index says which one. A re-created
	// interface of the same name has another index, and needs another socket.
	// Both are empty for unicast that may come and go by any interface.
	Interface string
	Index     int
	IPv6      bool
	// Group is the multicast group, of the family that IPv6 says.
	Group netip.Addr
	// Parent is the index of the link below when Interface is one with a virtual MAC; 0 else. The group is joined
	// there: a report that bears the virtual MAC would tell switches that it is here, when it is the master's.
	Parent int
	// Local is the own address of unicast. It may be missing in the kernel.
	Local netip.Addr
}

// UnicastKey is the key for unicast to and from local. The routing table decides
// by which interface its packets go, and they may come in by any; only a
// link-local address means nothing without its interface.
func UnicastKey(iface string, index int, local netip.Addr) Key {
	k := Key{IPv6: local.Is6(), Local: local}
	if local.Is6() && local.IsLinkLocalUnicast() {
		k.Interface, k.Index = iface, index
	}
	return k
}

// String is "eth0 ipv4 224.0.0.18" or "ipv4 unicast 10.9.0.1".
func (k Key) String() string {
	family, where := "ipv4", k.Interface
	if k.IPv6 {
		family = "ipv6"
	}
	if where != "" {
		where += " "
	}
	if k.Local.IsValid() {
		return fmt.Sprintf("%s%s unicast %v", where, family, k.Local)
	}
	return fmt.Sprintf("%s%s %v", where, family, k.Group)
}

// OnDrop is told of every packet that is not delivered, from the goroutine that
// reads; it must not block. src is invalid where it is not known.
type OnDrop func(key Key, src netip.Addr, reason packet.DropReason)

// Received is one advert with valid bytes. Whoever gets it owns it until
// Release.
type Received struct {
	Advert    packet.Advert
	Src, Dst  netip.Addr // without zone
	TTL       uint8      // or hop limit
	Interface string     // of the Key
	Group     netip.Addr // of the Key
	Unicast   bool       // from a socket for unicast
	IPv6      bool
	At        time.Time // when it was read

	home  chan *Received
	stage int32 // changed atomically: the owner may be another goroutine
}

// Where a Received is: with its owner; in deliver, which gives it to an owner; back
// from there before deliver has returned.
const (
	stageOut = iota
	stageDelivered
	stageBack
)

// Release gives r back to the socket that it came from. It must be called once
// and r, with the addresses in its Advert, not be used afterwards.
func (r *Received) Release() {
	if atomic.CompareAndSwapInt32(&r.stage, stageDelivered, stageBack) {
		return // mostly: the reader goes on with it
	}
	select {
	case r.home <- r: // has room for all of them
	default: // not from a socket
	}
}

// inFlight is how many received adverts of one socket can be with their owner
// at a time: two of each possible virtual router.
const inFlight = 512

// vridSet is a set of virtual router ids that others may read while it is
// replaced.
type vridSet [4]atomic.Uint64

func (s *vridSet) set(vrids []uint8) {
	var bits [4]uint64
	for _, v := range vrids {
		bits[v/64] |= 1 << (v % 64)
	}
	for i := range bits {
		s[i].Store(bits[i])
	}
}

func (s *vridSet) has(vrid uint8) bool { return s[vrid/64].Load()&(1<<(vrid%64)) != 0 }

// intake turns packets into Received, for Conn and Port alike. All but the Set
// methods and the counting of free ones belongs to the goroutine that reads.
type intake struct {
	key     Key
	onDrop  OnDrop
	vrids   vridSet
	watched vridSet
	patched atomic.Pointer[map[Party][]netip.Addr]
	keys    atomic.Pointer[map[Party]*packet.Authenticator]

	free  chan *Received
	made  int
	spare *Received // the next one to be delivered
	next  *Received // takes its place then; nil: to be taken from the free ones
}

func (in *intake) init(key Key, onDrop OnDrop) {
	in.key, in.onDrop = key, onDrop
	in.free = make(chan *Received, inFlight+1)
	in.spare = in.take()
}

// SetVRIDs replaces the set of virtual router ids that are wanted; adverts of
// all others are dropped as DropUnknownVRID. It starts empty. Safe to call at
// any time.
func (in *intake) SetVRIDs(vrids []uint8) { in.vrids.set(vrids) }

// SetWatched replaces the set of virtual router ids that speak unicast here, by
// sockets of their own: of those a multicast socket delivers what comes by
// multicast, so that the mistake is seen. Safe to call at any time.
func (in *intake) SetWatched(vrids []uint8) { in.watched.set(vrids) }

// Party is who adverts are from: a virtual router id and an address, without which it
// is anybody that no other Party names.
type Party struct {
	VRID   uint8
	Source netip.Addr
}

// SetPatched says of which peers checksums in [packet.FormPatched] are accepted, and
// with it all peers that the same virtual router has. The map is not changed
// afterwards. Safe to call at any time.
func (in *intake) SetPatched(peers map[Party][]netip.Addr) { in.patched.Store(&peers) }

// SetKeys replaces the keys of auth_hmac. Adverts of those without are refused when
// they are signed; of the others every good one is delivered, and says itself what
// its signature is worth. A Party may have nil. Safe to call at any time.
func (in *intake) SetKeys(keys map[Party]packet.Keys) {
	all, some := make(map[Party]*packet.Authenticator, len(keys)), false
	for who, k := range keys {
		all[who] = nil
		if len(k) > 0 {
			all[who], some = packet.NewAuthenticator(k), true
		}
	}
	if !some {
		all = nil // nothing to look for at each advert
	}
	in.keys.Store(&all)
}

// signer returns what proves the adverts of a virtual router from src; nil: nothing.
func (in *intake) signer(vrid uint8, src netip.Addr) *packet.Authenticator {
	keys := in.keys.Load()
	if keys == nil || len(*keys) == 0 {
		return nil
	}
	if x, ok := (*keys)[Party{vrid, src}]; ok {
		return x
	}
	return (*keys)[Party{VRID: vrid}]
}

// take returns a free Received, or nil if all are out.
func (in *intake) take() *Received {
	select {
	case r := <-in.free:
		return r
	default:
	}
	if in.made > inFlight {
		return nil
	}
	in.made++
	return &Received{Interface: in.key.Interface, Group: in.key.Group, IPv6: in.key.IPv6, Unicast: in.key.Local.IsValid(), home: in.free}
}

// accept checks the VRRP message of one packet and delivers it. The message is
// decoded into the spare, which is handed over only when another can take its
// place: a refused packet costs no more than its decoding.
func (in *intake) accept(src, dst netip.Addr, ttl uint8, message []byte, now time.Time, deliver func(*Received)) {
	reason, ours := in.destined(dst, message)
	if !ours {
		if reason != packet.DropNone {
			in.onDrop(in.key, src, reason)
		}
		return
	}
	r := in.spare
	if reason := in.decode(&r.Advert, src, dst, message); reason != packet.DropNone {
		in.onDrop(in.key, src, reason)
		return
	}
	if in.next == nil {
		in.next = in.take()
	}
	if in.next == nil {
		in.onDrop(in.key, src, packet.DropOverrun)
		return
	}
	r.Src, r.Dst, r.TTL, r.At = src, dst, ttl, now
	atomic.StoreInt32(&r.stage, stageDelivered)
	deliver(r)
	if atomic.CompareAndSwapInt32(&r.stage, stageDelivered, stageOut) {
		in.spare, in.next = in.next, nil
	}
}

// destined says whether a packet is to be looked at, and why not; DropNone when
// it is another socket's. The VRID comes before everything else in the message:
// what other virtual routers of the link send is not ours to judge.
func (in *intake) destined(dst netip.Addr, message []byte) (packet.DropReason, bool) {
	wanted, watched := true, false // too short for a VRID: for Decode to judge
	if len(message) > 1 {
		wanted, watched = in.vrids.has(message[1]), in.watched.has(message[1])
	}
	switch {
	case in.key.Local.IsValid() && dst != in.key.Local:
		return packet.DropDestination, false
	case dst == in.key.Group:
		wanted = wanted || watched
	case dst.IsMulticast() || !dst.IsValid():
		return packet.DropDestination, false
	case in.key.Group.IsValid() && !wanted && watched:
		return packet.DropNone, false
	case in.key.Group.IsValid() && !wanted:
		return packet.DropDestination, false
	}
	if !wanted {
		return packet.DropUnknownVRID, false
	}
	return packet.DropNone, true
}

// decode reads a message with what is known of its virtual router.
func (in *intake) decode(a *packet.Advert, src, dst netip.Addr, message []byte) packet.DropReason {
	first := in.firstPeers(src, message)
	if len(message) > 1 {
		if x := in.signer(message[1], src); x != nil {
			return a.DecodeAuth(message, src, dst, first, x)
		}
	}
	reason := a.DecodePatched(message, src, dst, first)
	if reason == packet.DropLength && packet.HasTrailer(message, in.key.IPv6) {
		return packet.DropSigned
	}
	return reason
}

// firstPeers returns the addresses that DecodePatched may try for src.
func (in *intake) firstPeers(src netip.Addr, message []byte) []netip.Addr {
	patched := in.patched.Load()
	if patched == nil || len(message) < 2 {
		return nil
	}
	return (*patched)[Party{message[1], src}]
}
