package conf

import (
	"fmt"
	"net/netip"
)

// Firewall is what global_defs says about the nftables rules of vipd.
type Firewall struct {
	Table    string // nftables, "vipd"
	Priority int    // nftables_priority, -1
	Counters bool   // nftables_counters
}

const (
	defaultTable    = "vipd"
	defaultPriority = -1
	// servicePriority is the least priority behind which IPVS has already taken the
	// packets of its services: its input hook is at 99.
	servicePriority = 100
)

// nftTableKind is the name of a table of nftables.
var nftTableKind = &kind{"nfttable", `true, or the name of a table: a letter, then letters, digits, and _ - . /, at most 63 ("vipd")`, []string{"type", "syntax"}, parseNFTTable}

// parseNFTTable reads nftables: the name of a table.
func parseNFTTable(f field) (any, bool) {
	switch v := f.it.value.(type) {
	case bool:
		if v {
			return defaultTable, true
		}
		return f.bad("syntax", "no_accept has no other way than nftables")
	case string:
		if validNFTTable(v) {
			return v, true
		}
		return f.bad("syntax", shown(f.it)+" is no name of a table")
	}
	return f.wrongType("string")
}

// validNFTTable reports whether nft(8) takes the name without quotes.
func validNFTTable(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		other := r >= '0' && r <= '9' || r == '-' || r == '.' || r == '/'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return name != "" && len(name) <= 63
}

// firewall settles the nftables rules.
func (b *builder) firewall() {
	b.config.Global.Firewall = Firewall{Table: defaultTable, Priority: b.global.num("nftables_priority"), Counters: get[bool](b.global, "nftables_counters")}
	if b.global.has("nftables") {
		b.config.Global.Firewall.Table = get[string](b.global, "nftables")
	}
}

// accept settles accept and no_accept.
func (b *builder) accept(v *values, in *Instance) {
	refuse := v.has("no_accept") && get[bool](v, "no_accept")
	if v.has("accept") && v.has("no_accept") && get[bool](v, "accept") == refuse {
		b.say(Error, v, "no_accept", "vrrp_instance.no_accept/contradiction", "accept and no_accept contradict each other", "keep one of the two")
	}
	key := "no_accept"
	if !refuse && v.has("accept") && !get[bool](v, "accept") {
		refuse, key = true, "accept"
	}
	if refuse && in.Priority == 255 {
		refuse = false
		b.say(Warning, v, key, "vrrp_instance.no_accept/owner", "has no effect with priority 255",
			"the owner of the addresses always accepts packets to them (RFC 9568 §6.1); take it out")
	}
	in.NoAccept = refuse
}

// strictAccept is what strict mode has to say about accept.
func (b *builder) strictAccept(v *values, in *Instance, breaks func(key, message, rfc string)) {
	switch {
	case in.NoAccept || in.Priority == 255:
	case v.has("accept") && in.Version == 2:
		breaks("accept", "accept in version 2", "RFC 3768 §6.4.3 lets only the owner of the addresses accept packets to them")
	case !v.given("accept") && !v.given("no_accept"):
		remedy := "write no_accept = true if that is meant, else accept = true; vipd's default is to accept"
		if in.Version == 2 {
			remedy = "write no_accept = true if that is meant, or take vrrp_strict or strict_mode out; vipd's default is to accept"
		}
		b.say(Warning, v, "strict_mode", "vrrp_instance.strict_mode/accept", "strict mode: this machine accepts packets to addresses that it does not own",
			"the RFC's default is not to (RFC 9568 §6.1, Accept_Mode), and keepalived's vrrp_strict then drops them: nothing answers on the addresses.\n"+remedy)
	}
}

// refusedService warns, at a key, of a service that nobody can reach, and reports whether it is one.
func (b *builder) refusedService(v *values, key string, host netip.Addr) bool {
	if b.config.Global.Firewall.Priority >= servicePriority {
		return false
	}
	for i := range b.config.Instances {
		in := &b.config.Instances[i]
		if !in.NoAccept || !in.holds(host) {
			continue
		}
		b.say(Warning, v, key, "virtual_server.address/no_accept", fmt.Sprintf("vrrp_instance %q has no_accept: packets to %s are dropped before IPVS sees them", in.Name, host),
			fmt.Sprintf("take no_accept out; or write nftables_priority = %d in global_defs: IPVS takes the packets of its services first, and the rest is dropped", servicePriority))
		return true
	}
	return false
}

// holds reports whether the instance has the address.
func (in *Instance) holds(host netip.Addr) bool {
	for _, list := range [][]VIP{in.VIPs, in.Excluded} {
		for _, a := range list {
			if a.Prefix.Addr() == host {
				return true
			}
		}
	}
	return false
}

// settings lists the keys of nftables.
func (f Firewall) settings() []setting {
	return []setting{
		{"nftables", unless(f.Table, defaultTable)},
		{"nftables_priority", unless(f.Priority, defaultPriority)},
		{"nftables_counters", unless(f.Counters, false)},
	}
}
