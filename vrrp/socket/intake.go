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

// Key says what a socket is for. Two sockets of one key would each receive
// every packet.
type Key struct {
	// Interface is the name, for messages; Index says which one. A re-created
	// interface of the same name has another index, and needs another socket.
	Interface string
	Index     int
	IPv6      bool
	// Group is the multicast group, of the family that IPv6 says.
	Group netip.Addr
}

// String is "eth0 ipv4 224.0.0.18".
func (k Key) String() string {
	family := "ipv4"
	if k.IPv6 {
		family = "ipv6"
	}
	return fmt.Sprintf("%s %s %v", k.Interface, family, k.Group)
}

// OnDrop is told of every packet that is not delivered, from the goroutine of
// Serve; it must not block. src is invalid where it is not known.
type OnDrop func(key Key, src netip.Addr, reason packet.DropReason)

// Received is one advert with valid bytes. Whoever gets it owns it until
// Release.
type Received struct {
	Advert    packet.Advert
	Src, Dst  netip.Addr // without zone
	TTL       uint8      // or hop limit
	Interface string
	IPv6      bool
	At        time.Time // when it was read

	home chan *Received
}

// Release gives r back to the socket that it came from. It must be called once
// and r, with the addresses in its Advert, not be used afterwards.
func (r *Received) Release() {
	select {
	case r.home <- r: // has room for all of them
	default: // not from a socket
	}
}

// inFlight is how many received adverts of one socket can be with their owner
// at a time: two of each possible virtual router.
const inFlight = 512

// intake turns packets into Received, for Conn and Port alike. All but SetVRIDs
// and the counting of free ones belongs to the goroutine of Serve.
type intake struct {
	key    Key
	onDrop OnDrop
	vrids  [4]atomic.Uint64

	free  chan *Received
	made  int
	spare *Received
}

func (in *intake) init(key Key, onDrop OnDrop) {
	in.key, in.onDrop = key, onDrop
	in.free = make(chan *Received, inFlight+1)
	in.spare = in.take()
}

// SetVRIDs replaces the set of virtual router ids that are wanted; adverts of
// all others are dropped as DropUnknownVRID. It starts empty. Safe to call at
// any time.
func (in *intake) SetVRIDs(vrids []uint8) {
	var set [4]uint64
	for _, v := range vrids {
		set[v/64] |= 1 << (v % 64)
	}
	for i := range set {
		in.vrids[i].Store(set[i])
	}
}

func (in *intake) wants(vrid uint8) bool { return in.vrids[vrid/64].Load()&(1<<(vrid%64)) != 0 }

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
	return &Received{Interface: in.key.Interface, IPv6: in.key.IPv6, home: in.free}
}

// accept checks the VRRP message of one packet and delivers it. The message is
// decoded into the spare, which is handed over only when another can take its
// place: a refused packet costs no more than its decoding.
func (in *intake) accept(src, dst netip.Addr, ttl uint8, message []byte, deliver func(*Received)) {
	if dst != in.key.Group {
		in.onDrop(in.key, src, packet.DropDestination)
		return
	}
	// The VRID comes first: what other virtual routers of the link send is not
	// ours to judge.
	if len(message) > 1 && !in.wants(message[1]) {
		in.onDrop(in.key, src, packet.DropUnknownVRID)
		return
	}
	r := in.spare
	if reason := r.Advert.Decode(message, src, dst); reason != packet.DropNone {
		in.onDrop(in.key, src, reason)
		return
	}
	next := in.take()
	if next == nil {
		in.onDrop(in.key, src, packet.DropOverrun)
		return
	}
	in.spare = next
	r.Src, r.Dst, r.TTL, r.At = src, dst, ttl, time.Now()
	deliver(r)
}
