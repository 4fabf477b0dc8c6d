package conf

import "slices"

// schedulers are the IPVS schedulers of the Linux kernel.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "mh", "dh", "fo", "ovf", "sed", "nq", "twos"}

// virtualServerBlock is [[virtual_server]].
var virtualServerBlock = &block{
	name:   "virtual_server",
	header: "[[virtual_server]]",
	doc:    "One service: an address and port, or a firewall mark, that IPVS spreads over real servers.",
	keys: slices.Concat([]*key{
		{name: "address", kind: endpointKind, doc: "\"203.0.113.10:80\", \"[2001:db8::1]:80\" or \"203.0.113.10 80\". The port may be left out only with persistence_timeout: then the service is every port. Give address, fwmark or group."},
		{name: "fwmark", kind: intKind, min: 1, max: 1<<32 - 1, doc: "The service is every packet with this firewall mark."},
		{name: "group", kind: textKind, min: 1, max: 63, doc: "The services are those of this virtual_server_group: they have the same servers, one set of checks, and are up or down together."},
		{name: "name", kind: textKind, min: 1, max: 255, defText: "the service, as in \"tcp 203.0.113.10:80\"", doc: "Name in status, logs and commands."},
		{name: "ip_family", kind: choiceKind, words: []string{"inet", "inet6"}, defText: "that of the real servers", doc: "Family of a fwmark service; in a group of the firewall marks that name none."},
		{name: "protocol", kind: choiceKind, words: []string{"TCP", "UDP", "SCTP"}, def: "TCP", doc: "Protocol of the service; has no meaning for a fwmark."},
		{name: "lvs_sched", aliases: []string{"lb_algo"}, kind: choiceKind, words: schedulers, def: "wlc", doc: "Scheduler."},
		{name: "survive", kind: choiceKind, words: []string{"mh"}, defText: "connections depend on lvs_sync_daemon", doc: "Connections outlive their director without any sync daemon: the scheduler mh with mh-port chooses the server by the client's address and port alone, on every director alike, and a packet in the midst of a connection is scheduled, too (net.ipv4.vs.sloppy_tcp and sloppy_sctp = 1 while vipd runs). All directors need the same real servers with the same weights, in the same order, in the same state."},
	}, schedulerKeys, []*key{
		{name: "lvs_method", aliases: []string{"lb_kind"}, kind: methodKind, def: forwarding{Method: "NAT"}, defText: "`NAT`", doc: "How packets reach the real servers: NAT rewrites them, DR sends them unchanged over the same link (each real server needs the address on lo), TUN wraps them: in IP-in-IP, in UDP (\"TUN type gue port 6080\") or in GRE (\"TUN type gre\"), the two with checksums on request (\"TUN type gre csum\"; remcsum, a remote checksum, is gue's alone). A table does as well: { method = \"TUN\", type = \"gue\", port = 6080, checksum = \"csum\" }. Each real server needs the tunnel's other end (for checksums of GRE one made with icsum) and the address on lo. With TUN servers may be of another family than the service; while there are such, the kernel refuses to run a connection sync daemon."},
		{name: "persistence_timeout", kind: persistenceKind, min: second, max: 31 * day, doc: "A client stays with its server for this long, in whole seconds; true means 360 s. Left out: off."},
		{name: "persistence_granularity", kind: maskKind, defText: "every client apart", doc: "Clients that are treated as one: \"255.255.255.0\" or 24 for IPv4, 1..128 for IPv6."},
		{name: "persistence_engine", kind: choiceKind, words: []string{"sip"}, doc: "What a client is, for persistence: sip takes the Call-ID of SIP over UDP, so that a call stays with its server wherever its packets come from; packets without one get no server. Left out: the client's address."},
		{name: "quorum", kind: intKind, min: 1, max: 1<<31 - 1, def: 1, doc: "The service is up while the weights of its live servers add up to this.", differs: "one that all weights together do not reach is as written, with a warning; keepalived lowers it silently."},
		{name: "inhibit_on_failure", kind: boolKind, def: false, doc: "A dead server gets weight 0 instead of being removed: its connections live on."},
		{name: "sorry_server", kind: endpointKind, doc: "Server that takes all connections while the quorum is lost. The port may be left out: the service's."},
		{name: "sorry_server_lvs_method", kind: methodKind, defText: "lvs_method", doc: "How packets reach the sorry server; written as lvs_method."},
		{name: "weight", kind: intKind, min: 0, max: maxWeight, def: 1, doc: "Default weight of the real servers."},
		keepKeys[0], keepKeys[1], onFailureKey(""), slowStartKey(""),
		{name: "smtp_alert", kind: boolKind, defText: "smtp_alert_checker, else smtp_alert of global_defs, else false", doc: "Mail when the quorum is reached or lost. Real servers have a smtp_alert of their own."},
		pathKey(""),
	}, steeringKeys, timingKeys(""), checkerKeys("The default of all real servers that have no check of their own."), []*key{
		{name: "real_server", kind: tablesKind, block: realServerBlock, doc: "The servers."},
	}),
}

// realServerBlock is [[virtual_server.real_server]].
var realServerBlock = &block{
	name:   "real_server",
	header: "[[virtual_server.real_server]]",
	doc:    "One server of a service. It takes connections while every one of its checks passes.",
	keys: append(append([]*key{
		{name: "address", kind: endpointKind, need: true, doc: "\"10.0.0.21:80\". The port may be left out: the service's. Under DR and TUN it must be the service's."},
		{name: "weight", kind: intKind, min: 0, max: maxWeight, defText: "that of the virtual server", note: "0 keeps the server but sends it no new connections", doc: "Share of the connections. 0 keeps the server but sends it no new connections."},
		{name: "lvs_method", aliases: []string{"lb_kind"}, kind: methodKind, defText: "that of the virtual server", doc: "How packets reach this server, with the tunnel if there is one: nothing of the virtual server's lvs_method is added."},
		{name: "uthreshold", kind: intKind, min: 0, max: 1<<31 - 1, def: 0, doc: "With so many connections the server gets no more; 0: no limit. Connections that have ended count until the kernel forgets them, a minute or two."},
		{name: "lthreshold", kind: intKind, min: 0, max: 1<<31 - 1, def: 0, defText: "three quarters of uthreshold", doc: "Once at uthreshold it gets new connections again when it has fewer than this; 0: three quarters of uthreshold. Not above uthreshold."},
		{name: "inhibit_on_failure", kind: boolKind, defText: "that of the virtual server", doc: "When dead, weight 0 instead of removal."},
		onFailureKey("that of the virtual server"), slowStartKey("that of the virtual server"),
		{name: "smtp_alert", kind: boolKind, defText: "smtp_alert_checker, else smtp_alert of global_defs, else true", doc: "Mail when the server goes or comes. That of the virtual server does not count here, as in keepalived."},
		pathKey("that of the virtual server"),
	}, slices.Concat(notifyServerKeys("that of the virtual server"), timingKeys("that of the virtual server"))...), checkerKeys("Several of one kind: [[…]]. A server with a check of its own takes none from the virtual server.")...),
}
