// Package firewall keeps vipd's own nftables rules: what the machine must not accept or send although it holds the
// virtual addresses. It does two things.
//
//   - Refused addresses (no_accept; Accept_Mode false, RFC 9568 §6.1): packets to them that would be delivered to this
//     machine are dropped, and so are packets that it sends from them. What a router needs still works: neighbour
//     discovery (RFC 9568 §6.1 forbids to drop it), ICMP errors about forwarded packets, router advertisements, VRRP.
//     ARP and forwarded packets never meet these rules.
//   - Silenced links (virtual-MAC links): IGMP and MLD reports and router solicitations do not leave by them, because a
//     switch would learn the virtual MAC at the wrong port. Reports are sent by the parent link instead.
//
// [Firewall] takes the whole wanted state of each ([Firewall.Refuse], [Firewall.Silence]), diffs both against what the
// kernel acknowledged, and makes all of it true in one transaction: the calls return when the rules are in force. Who
// adds an address first refuses it; who makes a link first silences it, which works by name, before the link exists.
// [Firewall.Run] hears of changes by others and puts back what they took away, "nft flush ruleset" included.
//
// # Tables
//
// There is a table of one name in each of the families ip and ip6 (dup, which sends the reports by the parent, exists
// in no other family), and only while something is wanted in that family:
//
//	table ip vipd {
//		set refused { type ipv4_addr }
//		map silent  { type ifname : iface_index }      # virtual-MAC link to the index of its parent
//		set quiet   { type ifname }                    # those without a parent: reports are dropped
//		chain in  { type filter hook input priority -1 }
//		chain out { type filter hook output priority -1 }
//	}
//
// In ip6 link-local addresses are in a set of their own, with the name of their interface. A table says whose it is in
// the comment of its set "owner": the state directory of its vipd. [Firewall.Sweep] removes what a crashed predecessor
// with that state directory left, whatever its name; a table of the same name that is somebody else's is never touched:
// every call then fails and says so.
//
// # IPVS
//
// IPVS takes packets of its services in the input hook at priority 99, after these rules: a service on a refused address
// is cut off. With [Options].Priority above 99 services are served and the rest of the address is refused.
package firewall
