// Package vmac owns the links with a virtual MAC: macvlans in private mode, one for each virtual router that has one
// (RFC 9568 §7.3). The virtual addresses sit on them, and adverts leave by them, so both have the virtual MAC.
//
// A [Manager] has the wanted links and makes the kernel agree: missing ones are made, also when their parent comes back
// under another index; one that was set down, or has another MTU than its parent, is put right. It is told of changes by
// snapshots ([Manager.State]); what has to be there before the first advert is made by [Manager.Configure], which waits.
//
// # What is on such a link
//
// Nothing but virtual addresses. In particular no link-local address of its own: adverts over IPv6 come from that of the
// parent, which the sender may use without having it here; on both links it would be answered for with two MACs. So a
// link of a BACKUP has no address, joins no group, solicits no router, and the bridges of the network hear of the virtual
// MAC from the MASTER alone. The link has IPv6 switched off unless it carries some.
//
// # Settings
//
// On the link: arp_ignore 1 (it answers for its own addresses only), arp_announce 2, arp_filter 0, promote_secondaries 1,
// accept_local 0 (with 1, which keepalived needs to hear adverts, a director whose daemon was killed would answer the
// announcements of its successor, and bridges would look for the virtual MAC there again), and a reverse path filter that lets clients in though the route back leads by the parent:
// 0, or 2 (loose) where net.ipv4.conf.all.rp_filter is on, which then need not be changed.
//
// On the parent of links with IPv4: arp_ignore 1, or it would answer for the virtual addresses with its own MAC, and
// arp_announce 2, or requests of this machine would say that a virtual address has it. Not arp_filter: after a flap the
// route to the parent's subnet may lead by the link, and the parent would no longer answer for its own address.
//
// What others set higher stays. Each value is noted in the state file before it is changed, is put back when the last
// link that needs it goes, and by the next start when this vipd was killed; unless somebody has changed it meanwhile.
//
// # Whose link is it
//
// Links of this vipd have an alias with its state directory, and are listed in its state file. A macvlan of the very
// name, parent and MAC that does not belong to another vipd was left by another program and is made anew. Anything else
// of that name is somebody else's: it stays, and the instance is in FAULT with the reason.
package vmac
