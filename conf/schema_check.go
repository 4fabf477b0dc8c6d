package conf

import (
	"slices"
	"time"
)

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
	one, oneText := def(1, from)
	off, offText := def(false, from)
	differs, ours, soon, at := "", "", "", ""
	if from == "" {
		soon, at = "keepalived's may be longer than delay_loop.", "keepalived waits delay_before_retry."
		differs, ours = "keepalived checks once a minute (60).", "keepalived has only retry; there one success is enough."
	}
	return []*key{
		{name: "delay_loop", kind: timeKind, min: int64(100 * time.Millisecond), max: day, def: delayLoop, defText: delayText, differs: differs, doc: "Time from one check to the next."},
		{name: "connect_timeout", kind: timeKind, min: int64(10 * time.Millisecond), max: hour, def: connect, defText: connectText, doc: "How long one attempt of a check may take, from connecting to the last byte that is needed."},
		{name: "retry", aliases: []string{"nb_get_retry"}, kind: intKind, min: 0, max: 1000, defText: or(from, "1, DNS_CHECK 3; with fall 0"), doc: "Further attempts, soon after one that failed, before that counts as a failure of a server that was up."},
		{name: "delay_before_retry", kind: timeKind, max: hour, defText: or(from, "1; HTTP_GET and SSL_GET 3; DNS_CHECK delay_loop; at most delay_loop"), differs: soon, doc: "Time between those attempts."},
		{name: "delay_if_refused", kind: timeKind, max: hour, defText: or(from, "0.05; where retry, delay_before_retry or fall is given, delay_before_retry"), differs: at, doc: "The same after a connection that was refused: it is certain that nobody serves there, and waiting tells no more."},
		{name: "fall", kind: intKind, min: 1, max: 1000, def: one, defText: oneText, doc: "How many checks in a row must fail, each with its retries and one delay_loop after the other, before a server that was up counts as down.", differs: ours},
		{name: "rise", kind: intKind, min: 1, max: 1000, def: one, defText: oneText, doc: "How many checks in a row must pass before a server that was down counts as up. At the start one is enough, but for alpha.", differs: ours},
		{name: "alpha", kind: boolKind, def: off, defText: offText, doc: "At the start, and when it is new, a server is down until the check has passed (rise times). Without it a new server takes connections until the check fails."},
		{name: "warmup", kind: timeKind, max: day, defText: or(from, "delay_loop"), doc: "The first check starts at a random moment within this time, so that not all start at once; 0: at once."},
		{name: "virtualhost", kind: solidKind, min: 1, max: 253, defText: from, doc: "Host header (and, with enable_sni, TLS server name) of HTTP_GET and SSL_GET."},
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
		{name: "SMTP_CHECK", kind: tablesKind, block: smtpCheckBlock, doc: "Talk to a mail server. " + doc},
		{name: "DNS_CHECK", kind: tablesKind, block: dnsCheckBlock, doc: "Ask a name server. " + doc},
		{name: "UDP_CHECK", kind: tablesKind, block: udpCheckBlock, doc: "Send a datagram. " + doc},
		{name: "PING_CHECK", kind: tablesKind, block: pingCheckBlock, doc: "Send ICMP echo requests. " + doc},
		{name: "GRPC_CHECK", kind: tablesKind, block: grpcCheckBlock, doc: "Ask a gRPC health service. " + doc},
		{name: "MISC_CHECK", kind: tablesKind, block: miscCheckBlock, doc: "Run a program. " + doc},
		{name: "FILE_CHECK", kind: tablesKind, block: fileCheckBlock, doc: "Look at the number in a file. " + doc},
	}
}

// endpointKeys are where a check comes from and goes to.
func endpointKeys(from string) []*key {
	server, system, route, mark := "the server's", "the system's choice", "that of the route", any(0)
	if from != "" {
		server, system, route, mark = from, from, from, nil
	}
	return []*key{
		{name: "connect_ip", kind: addressKind, defText: server, doc: "Address to connect to."},
		{name: "connect_port", kind: intKind, min: 1, max: 65535, defText: server, doc: "Port to connect to."},
		{name: "bindto", kind: addressKind, defText: system, doc: "Source address."},
		{name: "bind_if", kind: interfaceKind, defText: route, doc: "Interface that the check leaves by, whatever the routes say. A link-local bindto or connect_ip needs it."},
		{name: "bind_port", kind: intKind, min: 1, max: 65535, defText: system, doc: "Source port. The next attempt may have to wait until the system frees it."},
		{name: "fwmark", kind: intKind, min: 0, max: 1<<32 - 1, def: mark, defText: from, doc: "Firewall mark of the check's packets, for rules that choose their route; 0: none."},
	}
}

// checkKeys are the keys that every kind of check has, and more.
func checkKeys(more ...*key) []*key {
	logged := &key{name: "log_all_failures", kind: boolKind, defText: "checker_log_all_failures of global_defs", doc: "Log every attempt that fails, not only the last one before the server counts as down."}
	return slices.Concat(endpointKeys(""), []*key{logged}, checkTiming(), more)
}

// checkTiming are the shared keys without virtualhost, which few kinds need.
func checkTiming() []*key {
	keys := timingKeys("that of the real server")
	return slices.DeleteFunc(keys, func(k *key) bool { return k.name == "virtualhost" })
}

// httpKeys are the keys of HTTP_GET and SSL_GET.
func httpKeys(more ...*key) []*key {
	return append(append(checkKeys(pathKey("that of the real server"),
		&key{name: "http_protocol", kind: choiceKind, words: []string{"1.0", "1.0C", "1.1"}, def: "1.0", doc: "HTTP version; 1.0C is 1.0 with \"Connection: close\"."},
		&key{name: "fast_recovery", kind: boolKind, def: true, doc: "At the start and after a failure all pages are fetched one right after the other. It is always so; false is accepted and warns.", differs: "keepalived waits a delay_loop before each of them (off)."},
		&key{name: "virtualhost", kind: solidKind, min: 1, max: 253, defText: "that of the real server, else the address", doc: "Host header, unless the url has its own."}),
		more...), &key{name: "url", kind: tablesKind, block: urlBlock, need: true, doc: "What to fetch and what to expect; of several one is fetched each delay_loop, and all of them at the start and after a failure: url = [{ path = \"/\", status_code = \"200-299\" }]."})
}

// The tables of checks.
var (
	tcpCheckBlock = &block{
		name: "TCP_CHECK", header: "[virtual_server.real_server.TCP_CHECK]",
		doc: "The server is up when it accepts a TCP connection, and answers as expected.",
		keys: checkKeys(pathKey("that of the real server"),
			&key{name: "send", kind: sendKind, defText: "nothing", doc: "What is sent over the connection.", differs: "keepalived only connects."},
			&key{name: "expect", kind: regexKind, defText: "nothing", doc: "Something that matches must come within connect_timeout and the first 16 KiB; without send it is what the server says by itself.", differs: "keepalived only connects."}),
	}
	httpGetBlock = &block{
		name: "HTTP_GET", header: "[virtual_server.real_server.HTTP_GET]",
		doc:  "The server is up when it answers every url as expected. connect_timeout is that of each.",
		keys: httpKeys(),
	}
	sslGetBlock = &block{
		name: "SSL_GET", header: "[virtual_server.real_server.SSL_GET]",
		doc: "As HTTP_GET, over TLS. The server's certificate is verified only with a ca in SSL.",
		keys: httpKeys(
			&key{name: "enable_sni", kind: boolKind, def: false, doc: "Send a TLS server name: sni_name, else virtualhost, that of the url first."},
			&key{name: "sni_name", kind: solidKind, min: 1, max: 253, doc: "The TLS server name to send; implies enable_sni."},
			&key{name: "tls_compliant", kind: boolKind, def: false, doc: "A body that has no length must end as TLS wants it (close_notify), not just with the connection, which could have been cut. It is then read even where no url looks at it."},
			&key{name: "SSL", kind: tableKind, block: sslBlock, defText: "that at the top of the file", doc: "Certificates for this check, in place of those at the top of the file; an empty table: none."}),
	}
	sslBlock = &block{
		name: "SSL", header: "[SSL]",
		doc: "Certificates of all SSL_GET. A table of this name in an SSL_GET stands in its place. Files are read at the start and at each reload.",
		keys: []*key{
			{name: "ca", kind: pemKind, doc: "Certificates of the authorities that must have signed that of the server, for the name that the check sends (sni_name), else its virtualhost; without both, for any name. Without ca no certificate is verified.", differs: "vipd verifies names, too, and refuses files that it cannot read."},
			{name: "certificate", kind: pemKind, doc: "The certificate that vipd shows to servers that ask for one, and the chain below it."},
			{name: "key", kind: pemKind, secret: true, doc: "The private key of that certificate."},
			{name: "password", kind: textKind, min: 1, max: 1024, secret: true, doc: "Password of the key, if it is encrypted."},
		},
	}
	smtpCheckBlock = &block{
		name: "SMTP_CHECK", header: "[virtual_server.real_server.SMTP_CHECK]",
		doc: "The server is up when it greets as a mail server does and answers HELO.",
		keys: checkKeys(pathKey("that of the real server"),
			&key{name: "helo_name", kind: hostKind, def: "smtpchecker.keepalived.org", doc: "Name that HELO gives."},
			&key{name: "host", kind: tablesKind, block: hostBlock, doc: "Addresses to ask in place of the server's, each in a check of its own: host = [{ connect_port = 25 }, { connect_port = 587 }]."}),
	}
	hostBlock = &block{
		name: "host", header: "host = [{ … }] in SMTP_CHECK",
		doc:  "One address to ask. What it lacks is that of the check.",
		keys: endpointKeys("that of the check"),
	}
	dnsCheckBlock = &block{
		name: "DNS_CHECK", header: "[virtual_server.real_server.DNS_CHECK]",
		doc: "The server is up when it answers a query with NOERROR.",
		keys: checkKeys(
			&key{name: "type", kind: choiceKind, words: dnsTypes(), def: "SOA", doc: "Type of record to ask for."},
			&key{name: "name", kind: domainKind, def: ".", doc: "Domain name to ask about."},
			&key{name: "protocol", kind: choiceKind, words: []string{"UDP", "TCP"}, def: "UDP", doc: "How to ask.", differs: "keepalived asks over UDP."},
			&key{name: "answer", kind: recordsKind, doc: "Records that the answer must hold, others may be there, too: what a zone file has after the type (\"192.0.2.1\", \"10 mail.example.com.\"), or an array of these. A truncated answer is then asked for over TCP.", differs: "keepalived looks at the code alone."}),
	}
	urlBlock = &block{
		name: "url", header: "url = [{ … }] in HTTP_GET and SSL_GET",
		doc: "One page. What is given of status_code, digest and regex must all be right.",
		keys: []*key{
			{name: "path", kind: pathKind, def: "/", doc: "What to fetch, with the query if there is one."},
			{name: "status_code", kind: statusKind, defText: "200-299", doc: "Codes that are good: 200, \"200-299\", \"200-299 301\" or [200, 301]."},
			{name: "digest", kind: digestKind, doc: "MD5 of the body, 32 hexadecimal digits."},
			{name: "virtualhost", kind: solidKind, min: 1, max: 253, defText: "that of the check", doc: "Host header of this page."},
			{name: "regex", kind: textKind, min: 1, max: 4096, doc: "Regular expression (RE2) that must match somewhere in the body, of which 4 MiB are read. A \"$\" matches before a newline at the end, too.", differs: "RE2 takes the time that the body takes, whatever the expression; it has no look-around, back-references, atomic groups and possessive quantifiers."},
			{name: "regex_no_match", kind: boolKind, def: false, doc: "The page is good when regex does not match."},
			{name: "regex_options", kind: regexOptionsKind, doc: "Words with blanks between: caseless, dollar_endonly, dotall, firstline, multiline, ungreedy. Those that RE2 needs none of are taken, too."},
			{name: "regex_min_offset", kind: intKind, min: 0, max: 4 << 20, def: 0, doc: "Bytes of the body that are passed over; \"^\" then matches behind them."},
			{name: "regex_max_offset", kind: intKind, min: 1, max: 4 << 20, defText: "none", doc: "The match must begin at this byte of the body or before."},
			{name: "tls_compliant", kind: boolKind, defText: "that of the check", doc: "As tls_compliant of SSL_GET, for this page."},
		},
	}
)
