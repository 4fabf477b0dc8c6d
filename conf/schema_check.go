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
	differs, ours := "", ""
	if from == "" {
		differs, ours = "keepalived checks once a minute (60).", "keepalived has only retry; there one success is enough."
	}
	return []*key{
		{name: "delay_loop", kind: timeKind, min: int64(100 * time.Millisecond), max: day, def: delayLoop, defText: delayText, differs: differs, doc: "Time from one check to the next."},
		{name: "connect_timeout", kind: timeKind, min: int64(10 * time.Millisecond), max: hour, def: connect, defText: connectText, doc: "How long one attempt of a check may take, from connecting to the last byte that is needed."},
		{name: "retry", aliases: []string{"nb_get_retry"}, kind: intKind, min: 0, max: 1000, defText: or(from, "1; with fall 0"), doc: "Further attempts, soon after one that failed, before that counts as a failure of a server that was up."},
		{name: "delay_before_retry", kind: timeKind, max: hour, defText: or(from, "1; HTTP_GET and SSL_GET 3"), doc: "Time between those attempts."},
		{name: "fall", kind: intKind, min: 1, max: 1000, def: one, defText: oneText, doc: "How many checks in a row must fail, each with its retries and one delay_loop after the other, before a server that was up counts as down.", differs: ours},
		{name: "rise", kind: intKind, min: 1, max: 1000, def: one, defText: oneText, doc: "How many checks in a row must pass before a server that was down counts as up. At the start one is enough, but for alpha.", differs: ours},
		{name: "alpha", kind: boolKind, def: off, defText: offText, doc: "At the start, and when it is new, a server is down until the check has passed (rise times). Without it a new server takes connections until the check fails."},
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

// checkKeys are the keys that every kind of check has.
func checkKeys() []*key {
	return append([]*key{
		{name: "connect_ip", kind: addressKind, defText: "the server's", doc: "Address to connect to."},
		{name: "connect_port", kind: intKind, min: 1, max: 65535, defText: "the server's", doc: "Port to connect to."},
		{name: "bindto", kind: addressKind, defText: "the system's choice", doc: "Source address."},
		{name: "bind_if", kind: interfaceKind, defText: "that of the route", doc: "Interface that the check leaves by, whatever the routes say. A link-local bindto or connect_ip needs it."},
		{name: "bind_port", kind: intKind, min: 1, max: 65535, defText: "the system's choice", doc: "Source port. The next attempt may have to wait until the system frees it."},
		{name: "fwmark", kind: intKind, min: 0, max: 1<<32 - 1, def: 0, doc: "Firewall mark of the check's packets, for rules that choose their route; 0: none."},
		{name: "log_all_failures", kind: boolKind, defText: "checker_log_all_failures of global_defs", doc: "Log every attempt that fails, not only the last one before the server counts as down."},
	}, checkTiming()...)
}

// checkTiming are the shared keys without virtualhost, which few kinds need.
func checkTiming() []*key {
	keys := timingKeys("that of the real server")
	return slices.DeleteFunc(keys, func(k *key) bool { return k.name == "virtualhost" })
}

// httpKeys are the keys of HTTP_GET and SSL_GET.
func httpKeys(more ...*key) []*key {
	return append(append(checkKeys(),
		&key{name: "http_protocol", kind: choiceKind, words: []string{"1.0", "1.0C", "1.1"}, def: "1.0", doc: "HTTP version; 1.0C is 1.0 with \"Connection: close\"."},
		&key{name: "fast_recovery", kind: boolKind, def: true, doc: "At the start and after a failure all pages are fetched one right after the other. It is always so; false is accepted and warns.", differs: "keepalived waits a delay_loop before each of them (off)."},
		&key{name: "virtualhost", kind: textKind, min: 1, max: 253, defText: "that of the real server, else the address", doc: "Host header, unless the url has its own."}),
		append(more, &key{name: "url", kind: tablesKind, block: urlBlock, need: true, doc: "What to fetch and what to expect; of several one is fetched each delay_loop, and all of them at the start and after a failure: url = [{ path = \"/\", status_code = \"200-299\" }]."})...)
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
		doc:  "The server is up when it answers every url as expected. connect_timeout is that of each.",
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
