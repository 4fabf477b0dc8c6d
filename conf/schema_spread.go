package conf

import "slices"

// spreadBlock is [vip_spread.NAME]. Beside its own keys it takes those of
// vrrp_instance and hands them to every instance it makes.
var spreadBlock = &block{
	name:    "vip_spread",
	header:  "[vip_spread.NAME]",
	named:   true,
	borrows: "vrrp_instance",
	doc: "One list of addresses, spread over any number of directors by one file that is the same on all of them (see [spread.md](spread.md)). " +
		"The addresses are dealt out to groups; each group becomes a vrrp_instance called NAME-01, NAME-02, …, in which every director has a priority of its own. " +
		"The other keys of [vrrp_instance](#vrrp_instance) go to every one of these instances: `interface`, which must be given, and any others, " +
		"except `priority`, `state`, `mcast_src_ip`, `unicast_src_ip`, `virtual_ipaddress_excluded` and `no_virtual_ipaddress`.",
	keys: append([]*key{
		{name: "directors", kind: directorsKind, need: true, doc: "All directors, by router_id or host name: \"NAME [weight N]\" or { name = \"NAME\", weight = N }. A director of weight 2 gets twice the share of one of weight 1, which is the default. Add new ones at the end of the list: then the fewest groups move."},
		{name: "virtual_router_id", kind: vridsKind, need: true, doc: "The VRIDs, as \"FROM-TO\": the first group gets FROM. Not used by anything else on this network."},
		{name: "groups", kind: intKind, min: 1, max: 255, defText: "the number of VRIDs", doc: "Number of groups. It decides which addresses stay together, so it must never differ between directors; a multiple of the number of directors, and of one less, spreads best (12 for 2, 3 or 4 directors)."},
		{name: "scheme", kind: choiceKind, words: []string{"even", "pairs"}, def: "even", doc: "Who stands in for a director that fails: \"even\": all others, each with a part; \"pairs\": its partner, which is the second of the list for the first, the fourth for the third, and so on."},
		{name: "virtual_ipaddress", kind: spreadVIPsKind, need: true, doc: "The addresses, one family: those of vrrp_instance and also whole blocks (\"203.0.113.64/28\", all 16 addresses) and ranges (\"203.0.113.10-29\"), each with the options of an address. They are dealt out to the groups in turn; add new ones at the end of the list, then no other changes its group."},
	}, borrowed()...),
}

// ownInSpread are the keys of vrrp_instance that a spread has in another form or
// decides itself.
var ownInSpread = []string{"virtual_router_id", "virtual_ipaddress", "virtual_ipaddress_excluded", "no_virtual_ipaddress", "priority", "state", "mcast_src_ip", "unicast_src_ip"}

// borrowed returns the keys of vrrp_instance that a spread takes too.
func borrowed() []*key {
	return slices.DeleteFunc(slices.Clone(instanceBlock.keys), func(k *key) bool { return slices.Contains(ownInSpread, k.name) })
}

// shares reports whether a key of the block is one of the block it borrows from:
// the reference, the suggestions and the tests know it from there.
func (b *block) shares(k *key) bool {
	return b.borrows == instanceBlock.name && instanceBlock.find(k.name) == k
}
