package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// peersKind is the kind of unicast_peer.
var peersKind = &kind{"peers", `an array of "ADDRESS [min_ttl 0..255] [max_ttl 0..255]" or { address = "ADDRESS", min_ttl = N, max_ttl = N }`,
	[]string{"type", "syntax", "host", "option", "range", "twice"}, parsePeers}

// peer is one line of unicast_peer.
type peer struct {
	Peer
	it   *item
	path string
}

// parsePeers reads unicast_peer.
func parsePeers(f field) (any, bool) {
	return parseEntries(f, field.peer, func(p peer) string { return p.Address.String() })
}

// peer reads one entry.
func (f field) peer() (peer, bool) {
	p := peer{it: f.it, path: f.path, Peer: Peer{MaxTTL: 255}}
	words, ok := f.words("address")
	if !ok {
		return p, false
	}
	if len(words) == 0 {
		f.bad("syntax", "is empty")
		return p, false
	}
	if p.Address, ok = address(words[0]); !ok {
		f.bad("syntax", strconv.Quote(words[0])+" is no IP address"+addressHint(words[0]))
		return p, false
	}
	if !unicast(p.Address) {
		f.bad("host", strconv.Quote(words[0])+" is not the address of one host")
		return p, false
	}
	for words = words[1:]; len(words) > 0; words = words[2:] {
		bound := map[string]*uint8{"min_ttl": &p.MinTTL, "max_ttl": &p.MaxTTL}[words[0]]
		if bound == nil {
			f.bad("option", strconv.Quote(words[0])+" is no option of a peer"+didYouMean(words[0], []string{"min_ttl", "max_ttl"}))
			return p, false
		}
		if len(words) < 2 {
			f.bad("option", strconv.Quote(words[0])+" needs a number after it")
			return p, false
		}
		n, err := strconv.ParseUint(words[1], 10, 8)
		if err != nil {
			f.bad("range", fmt.Sprintf("%s %q is no number of 0..255", words[0], words[1]))
			return p, false
		}
		*bound = uint8(n)
	}
	if p.MinTTL > p.MaxTTL {
		f.bad("range", fmt.Sprintf("min_ttl %d is above max_ttl %d: no advert could be accepted", p.MinTTL, p.MaxTTL))
		return p, false
	}
	return p, true
}

// bounded reports whether the TTL of adverts from the peer is looked at.
func (p Peer) bounded() bool { return p.MinTTL > 0 || p.MaxTTL < 255 }

// String returns the peer as a line of unicast_peer.
func (p Peer) String() string {
	line := p.Address.String()
	if p.MinTTL > 0 {
		line += " min_ttl " + strconv.Itoa(int(p.MinTTL))
	}
	if p.MaxTTL < 255 {
		line += " max_ttl " + strconv.Itoa(int(p.MaxTTL))
	}
	return line
}

// unicast settles to whom an instance speaks by unicast. It never falls
// back to multicast: an instance meant for unicast that has no peer stays in FAULT.
func (b *builder) unicast(v *values, in *Instance) {
	if v.has("unicast_fault_no_peer") && !get[bool](v, "unicast_fault_no_peer") {
		b.say(Warning, v, "unicast_fault_no_peer", "vrrp_instance.unicast_fault_no_peer/always", "has no effect",
			"vipd never falls back to multicast: without peers an instance that is meant for unicast stays in FAULT; take it out")
	}
	b.unicastSource(v, in)
	if !in.Unicast {
		for _, key := range []string{"unicast_ttl", "check_unicast_src"} {
			if v.has(key) {
				b.say(Warning, v, key, "vrrp_instance."+key+"/unused", "has no effect without unicast_peer", "adverts go by multicast; list the other directors in unicast_peer, or take it out")
			}
		}
		return
	}
	in.UnicastTTL = 255
	if v.has("unicast_ttl") {
		in.UnicastTTL = uint8(v.num("unicast_ttl"))
	}
	in.CheckUnicastSource = get[bool](b.global, "vrrp_check_unicast_src")
	if v.has("check_unicast_src") {
		in.CheckUnicastSource = get[bool](v, "check_unicast_src")
	}
	peers := get[[]peer](v, "unicast_peer")
	for _, p := range peers {
		b.peer(p, in)
		in.Peers = append(in.Peers, p.Peer)
	}
	bounded := slices.ContainsFunc(in.Peers, Peer.bounded)
	if bounded && !in.CheckUnicastSource && v.has("check_unicast_src") {
		b.say(Warning, v, "check_unicast_src", "vrrp_instance.check_unicast_src/ttl", "has no effect beside min_ttl or max_ttl", "a bound of the TTL is one on a peer, so only peers are heard; take it out, or the bounds")
	}
	in.CheckUnicastSource = in.CheckUnicastSource || bounded
	if len(peers) == 0 && !v.wrong("unicast_peer") {
		b.say(Warning, v, "unicast_peer", "vrrp_instance.unicast_peer/none", "there is no peer: the instance stays in FAULT", "list the addresses of the other directors in unicast_peer")
	}
}

// unicastSource settles unicast_src_ip.
func (b *builder) unicastSource(v *values, in *Instance) {
	src := get[netip.Addr](v, "unicast_src_ip")
	if !src.IsValid() {
		return
	}
	if !in.Unicast {
		b.say(Error, v, "unicast_src_ip", "vrrp_instance.unicast_src_ip/peer", "there is no unicast_peer", "adverts would go by multicast; list the other directors in unicast_peer, or write mcast_src_ip")
	}
	if v.has("mcast_src_ip") {
		b.say(Error, v, "mcast_src_ip", "vrrp_instance.unicast_src_ip/contradiction", "unicast_src_ip is given too", "an instance has one source address; keep unicast_src_ip")
	}
	in.Source = src
}

// peer checks one peer of an instance.
func (b *builder) peer(p peer, in *Instance) {
	a := p.Address
	linkLocal := a.IsLinkLocalUnicast() && a.Is6()
	holds := func(v VIP) bool { return v.Prefix.Addr() == a }
	switch {
	case a.Is6() != in.IPv6 && !b.guessed:
		b.sayAt(Error, p.it, p.path, "vrrp_instance.unicast_peer/family", fmt.Sprintf("%s does not fit: the addresses of this instance are %s", a, family(in.IPv6)), "write the peer's "+family(in.IPv6)+" address, or take it out")
	case slices.ContainsFunc(in.VIPs, holds) || slices.ContainsFunc(in.Excluded, holds):
		b.sayAt(Warning, p.it, p.path, "vrrp_instance.unicast_peer/vip", fmt.Sprintf("%s is a virtual address of this instance", a), "it is on whichever director is master; write the other director's own address, unless that one is its owner (priority 255)")
	case linkLocal && in.Source.IsValid() && !in.Source.IsLinkLocalUnicast():
		b.sayAt(Error, p.it, p.path, "vrrp_instance.unicast_peer/scope", fmt.Sprintf("%s is link-local, but unicast_src_ip is not", a), "write the peer's address of the same kind as unicast_src_ip, or take unicast_src_ip out")
	case a.Is6() && !linkLocal && !in.Source.IsValid():
		b.sayAt(Warning, p.it, p.path, "vrrp_instance.unicast_peer/source", fmt.Sprintf("adverts to %s come from the link-local address of %s", a, in.Interface),
			"that reaches no other network, and the peer must list the link-local address; write unicast_src_ip with this director's own address")
	}
}

// unicastSettings lists what unicast adds to an instance.
func (in Instance) unicastSettings() []setting {
	all := []setting{
		{"unicast_peer", list(texts(in.Peers))},
		{"unicast_src_ip", in.Source},
		{"unicast_ttl", in.UnicastTTL},
		{"check_unicast_src", in.CheckUnicastSource},
	}
	if !in.Unicast {
		for i := range all {
			all[i].value = unwritten{all[i].value}
		}
		all[1].value = unwritten{}
	}
	return append(all, setting{"unicast", unwritten{in.Unicast}})
}
