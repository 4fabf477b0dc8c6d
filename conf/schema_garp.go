package conf

// garpGroupBlock is [[garp_group]].
var garpGroupBlock = &block{
	name:   "garp_group",
	header: "[[garp_group]]",
	doc: "Interfaces that lead to one switch and so share one gap between announcements; or a gap for one interface. " +
		"The gaps count for these interfaces whatever instances say. VLAN and other interfaces on top of one have a gap of their own.",
	keys: []*key{
		{name: "interface", kind: interfaceKind, doc: "The interface, when it is one."},
		{name: "interfaces", kind: interfacesKind, doc: "The interfaces, when they are several. An interface is in one group at most."},
		{name: "garp_interval", kind: timeKind, max: 10 * second, defText: "vrrp_garp_interval", doc: "Least time between two ARP announcements on all of them; 0: as fast as possible."},
		{name: "gna_interval", kind: timeKind, max: 10 * second, defText: "vrrp_gna_interval", doc: "The same for IPv6 neighbour advertisements."},
	},
}
