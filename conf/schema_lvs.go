package conf

import "time"

// schedulers are the IPVS schedulers of the Linux kernel.
var schedulers = []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "mh", "dh", "fo", "ovf", "sed", "nq", "twos"}

// methods are the ways IPVS forwards a packet.
var methods = []string{"NAT", "DR", "TUN"}

// The keys that virtual servers, real servers and checks share: a real server
// takes what it lacks from its virtual server, a check from its real server.
func timingKeys(from string) []*key {
	def := func(constant any, text string) (any, string) {
		if from == "" {
			return constant, ""
		}
		return nil, text
	}
	delayLoop, delayText := def(5*time.Second, from)
	connect, connectText := def(5*time.Second, from)
	retry, retryText := def(1, from)
	differs := ""
	if from == "" {
		differs = "keepalived checks once a minute (60)."
	}
	return []*key{
		{name: "delay_loop", kind: timeKind, min: int64(100 * time.Millisecond), max: day, def: delayLoop, defText: delayText, differs: differs, doc: "Time from one check to the next."},
		{name: "connect_timeout", kind: timeKind, min: int64(10 * time.Millisecond), max: hour, def: connect, defText: connectText, doc: "How long one attempt of a check may take, from connecting to the last byte that is needed."},
		{name: "retry", aliases: []string{"nb_get_retry"}, kind: intKind, min: 0, max: 1000, def: retry, defText: retryText, doc: "Further attempts before a server that was up counts as down."},
		{name: "delay_before_retry", kind: timeKind, max: hour, defText: or(from, "1; HTTP_GET and SSL_GET 3"), doc: "Time between those attempts."},
		{name: "warmup", kind: timeKind, max: day, defText: or(from, "delay_loop"), doc: "The first check starts at a random moment within this time, so that not all start at once; 0: at once."},
		{name: "virtualhost", kind: textKind, min: 1, max: 253, defText: from, doc: "Host header (and, with enable_sni, TLS server name) of HTTP_GET and SSL_GET."},
	}
}

// or returns the first text that is not empty.
func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// checkerKeys are the tables of checks, in a virtual server or a real server.
func checkerKeys(doc string) []*key {
	return []*key{
		{name: "TCP_CHECK", kind: tablesKind, block: tcpCheckBlock, doc: "Connect. " + doc},
		{name: "HTTP_GET", kind: tablesKind, block: httpGetBlock, doc: "Fetch pages over HTTP. " + doc},
		{name: "SSL_GET", kind: tablesKind, block: sslGetBlock, doc: "Fetch pages over HTTPS. " + doc},
	}
}

// virtualServerBlock is [[virtual_server]].
var virtualServerBlock = &block{
	name:   "virtual_server",
	header: "[[virtual_server]]",
	doc:    "One service: an address and port, or a firewall mark, that IPVS spreads over real servers.",
	keys: append(append([]*key{
		{name: "address", kind: endpointKind, doc: "\"203.0.113.10:80\", \"[2001:db8::1]:80\" or \"203.0.113.10 80\". The port may be left out only with persistence_timeout: then the service is every port. Give address or fwmark."},
		{name: "fwmark", kind: intKind, min: 1, max: 1<<32 - 1, doc: "The service is every packet with this firewall mark."},
		{name: "name", kind: textKind, min: 1, max: 255, defText: "the service, as in \"tcp 203.0.113.10:80\"", doc: "Name in status, logs and commands."},
		{name: "ip_family", kind: choiceKind, words: []string{"inet", "inet6"}, defText: "that of the real servers", doc: "Family of a fwmark service."},
		{name: "protocol", kind: choiceKind, words: []string{"TCP", "UDP", "SCTP"}, def: "TCP", doc: "Protocol of the service; has no meaning for a fwmark."},
		{name: "lvs_sched", aliases: []string{"lb_algo"}, kind: choiceKind, words: schedulers, def: "wlc", doc: "Scheduler."},
		{name: "lvs_method", aliases: []string{"lb_kind"}, kind: choiceKind, words: methods, def: "NAT", doc: "How packets reach the real servers: NAT rewrites them, DR sends them unchanged over the same link (each real server needs the address on lo), TUN wraps them in IP-in-IP."},
		{name: "persistence_timeout", kind: persistenceKind, min: second, max: 31 * day, doc: "A client stays with its server for this long, in whole seconds; true means 360 s. Left out: off."},
		{name: "persistence_granularity", kind: maskKind, defText: "every client apart", doc: "Clients that are treated as one: \"255.255.255.0\" or 24 for IPv4, 1..128 for IPv6."},
		{name: "quorum", kind: intKind, min: 1, max: 1<<31 - 1, def: 1, doc: "The service is up while the weights of its live servers add up to this."},
		{name: "inhibit_on_failure", kind: boolKind, def: false, doc: "A dead server gets weight 0 instead of being removed: its connections live on."},
		{name: "sorry_server", kind: endpointKind, doc: "Server that takes all connections while the quorum is lost. The port may be left out: the service's."},
		{name: "sorry_server_lvs_method", kind: choiceKind, words: methods, defText: "lvs_method", doc: "How packets reach the sorry server."},
		{name: "weight", kind: intKind, min: 0, max: 65535, def: 1, doc: "Default weight of the real servers."},
		{name: "smtp_alert", kind: boolKind, defText: "smtp_alert_checker, else smtp_alert of global_defs, else false", doc: "Mail when the quorum is reached or lost. Real servers have a smtp_alert of their own."},
	}, timingKeys("")...), append(checkerKeys("The default of all real servers that have no check of their own."),
		&key{name: "real_server", kind: tablesKind, block: realServerBlock, doc: "The servers."})...),
}

// realServerBlock is [[virtual_server.real_server]].
var realServerBlock = &block{
	name:   "real_server",
	header: "[[virtual_server.real_server]]",
	doc:    "One server of a service. It takes connections while every one of its checks passes.",
	keys: append(append([]*key{
		{name: "address", kind: endpointKind, need: true, doc: "\"10.0.0.21:80\". The port may be left out: the service's. Under DR and TUN it must be the service's."},
		{name: "weight", kind: intKind, min: 0, max: 65535, defText: "that of the virtual server", note: "0 keeps the server but sends it no new connections", doc: "Share of the connections. 0 keeps the server but sends it no new connections."},
		{name: "lvs_method", aliases: []string{"lb_kind"}, kind: choiceKind, words: methods, defText: "that of the virtual server", doc: "How packets reach this server."},
		{name: "inhibit_on_failure", kind: boolKind, defText: "that of the virtual server", doc: "When dead, weight 0 instead of removal."},
		{name: "smtp_alert", kind: boolKind, defText: "smtp_alert_checker, else smtp_alert of global_defs, else true", doc: "Mail when the server goes or comes. That of the virtual server does not count here, as in keepalived."},
	}, timingKeys("that of the virtual server")...), checkerKeys("Several of one kind: [[…]]. A server with a check of its own takes none from the virtual server.")...),
}

// checkKeys are the keys that every kind of check has.
func checkKeys() []*key {
	return append([]*key{
		{name: "connect_ip", kind: addressKind, defText: "the server's", doc: "Address to connect to."},
		{name: "connect_port", kind: intKind, min: 1, max: 65535, defText: "the server's", doc: "Port to connect to."},
		{name: "bindto", kind: addressKind, defText: "the system's choice", doc: "Source address."},
		{name: "bind_port", kind: intKind, min: 1, max: 65535, defText: "the system's choice", doc: "Source port. The next attempt may have to wait until the system frees it."},
	}, timingKeys("that of the real server")[:5]...)
}

// httpKeys are the keys of HTTP_GET and SSL_GET.
func httpKeys(more ...*key) []*key {
	return append(append(checkKeys(),
		&key{name: "http_protocol", kind: choiceKind, words: []string{"1.0", "1.0C", "1.1"}, def: "1.0", doc: "HTTP version; 1.0C is 1.0 with \"Connection: close\"."},
		&key{name: "virtualhost", kind: textKind, min: 1, max: 253, defText: "that of the real server, else the address", doc: "Host header, unless the url has its own."}),
		append(more, &key{name: "url", kind: tablesKind, block: urlBlock, need: true, doc: "What to fetch and what to expect; several are fetched in turn: url = [{ path = \"/\", status_code = \"200-299\" }]."})...)
}

// The tables of checks.
var (
	tcpCheckBlock = &block{
		name: "TCP_CHECK", header: "[virtual_server.real_server.TCP_CHECK]",
		doc:  "The server is up when it accepts a TCP connection.",
		keys: checkKeys(),
	}
	httpGetBlock = &block{
		name: "HTTP_GET", header: "[virtual_server.real_server.HTTP_GET]",
		doc:  "The server is up when it answers every url as expected.",
		keys: httpKeys(),
	}
	sslGetBlock = &block{
		name: "SSL_GET", header: "[virtual_server.real_server.SSL_GET]",
		doc: "As HTTP_GET, over TLS. The certificate is not verified.",
		keys: httpKeys(
			&key{name: "enable_sni", kind: boolKind, def: false, doc: "Send a TLS server name: sni_name, else virtualhost."},
			&key{name: "sni_name", kind: textKind, min: 1, max: 253, doc: "The TLS server name to send; implies enable_sni."}),
	}
	urlBlock = &block{
		name: "url", header: "url = [{ … }] in HTTP_GET and SSL_GET",
		doc: "One page. Both status_code and digest must match when both are given.",
		keys: []*key{
			{name: "path", kind: pathKind, def: "/", doc: "What to fetch, with the query if there is one."},
			{name: "status_code", kind: statusKind, defText: "200-299 unless digest is given", doc: "Codes that are good: 200, \"200-299\", \"200-299 301\" or [200, 301]."},
			{name: "digest", kind: digestKind, doc: "MD5 of the body, 32 hexadecimal digits."},
			{name: "virtualhost", kind: textKind, min: 1, max: 253, defText: "that of the check", doc: "Host header of this page."},
		},
	}
)
