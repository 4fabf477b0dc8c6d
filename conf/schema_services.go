package conf

// serverGroupBlock is [virtual_server_group.NAME].
var serverGroupBlock = &block{
	name:   "virtual_server_group",
	header: "[virtual_server_group.NAME]",
	named:  true,
	doc:    "Services, at most 16384, that share the real servers and checks of the virtual_server that names the group. A reload adds and removes services without touching the others. One virtual_server of each protocol may use a group.",
	keys: []*key{
		{name: "address", kind: rangesKind, doc: "Addresses of services: \"203.0.113.10 80\", a range \"203.0.113.10-20 80\", \"203.0.113.250-203.0.114.10 80\" or \"2001:db8::10-2f 80\" (the last part is hexadecimal), a network \"203.0.113.8/29 80\" with all its addresses; or { address = \"203.0.113.10-20\", port = 80 }. Without a port the service is every port, and that needs persistence_timeout."},
		{name: "fwmark", kind: marksKind, doc: "Firewall marks: 7, \"7 inet6\" or { fwmark = 7, ip_family = \"inet6\" }. Without a family that of the addresses, else of the real servers."},
	},
}

// schedulerKeys are the flags of schedulers, in a virtual server.
var schedulerKeys = []*key{
	{name: "sh-port", kind: boolKind, def: false, doc: "With lvs_sched = \"sh\": the client's port counts as well as its address."},
	{name: "sh-fallback", kind: boolKind, def: false, doc: "With \"sh\": clients of a server with weight 0 or at its limit go to another one."},
	{name: "mh-port", kind: boolKind, def: false, doc: "With lvs_sched = \"mh\": the client's port counts as well as its address."},
	{name: "mh-fallback", kind: boolKind, def: false, doc: "With \"mh\": clients of a server with weight 0 or at its limit go to another one."},
	{name: "flag-1", kind: boolKind, def: false, doc: "The scheduler's first flag, as ipvsadm -b flag-1: sh-fallback and mh-fallback are names of it."},
	{name: "flag-2", kind: boolKind, def: false, doc: "Its second flag: sh-port and mh-port are names of it."},
	{name: "flag-3", kind: boolKind, def: false, doc: "Its third flag, which no scheduler of Linux uses."},
	{name: "ops", kind: boolKind, def: false, doc: "One-packet scheduling, of UDP only: a server is chosen for every datagram, not once for all that come from one port of a client. Under DR and TUN; under NAT the answers do not reach the clients."},
}
