// Package socket carries adverts between the wire and their owner.
//
// [Conn] is one raw socket for one interface, address family and multicast
// group, or for unicast to and from one own address, shared by all virtual
// routers there. It is used for both directions:
// whoever opens a Conn adds it to a [Poller], which reads everything that
// arrives, so there is no second, send-only socket whose unread receive queue
// would fill. Until then, and if the reader is slow, the queue is bounded by
// the receive buffer (receiveBuffer). Nothing is allocated per packet, good or
// bad: received adverts come from a bounded free list, and when all of them
// are in use the packet is counted as an overrun.
//
// What the socket checks: arrival interface, destination, the lengths of the
// IP header, whether the VRID is wanted, and all of [packet.Advert.Decode].
// Left to the owner, who knows the instance: TTL, version, authentication, own
// source address ([packet.Verify]). The kernel does not loop our own multicast
// back.
//
// [Listen] opens a Conn that only listens, beside another program.
//
// [LAN] is an in-memory network whose [Port] has the methods of a Conn, for
// tests in a testing/synctest bubble. [Poller] is also a timer more precise than
// the standard library's.
package socket
