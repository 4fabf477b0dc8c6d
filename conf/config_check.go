package conf

import (
	"net/netip"
	"time"
)

// Check is one checker of a real server, with all defaults applied.
type Check struct {
	Kind             string         // "TCP_CHECK", "HTTP_GET" and so on
	Target           netip.AddrPort // connect_ip, connect_port, or the server's own
	Bind             netip.AddrPort // bindto, bind_port; zero when unset
	Via              netip.Addr     // check_path = "vip": the server by which packets go to Target; zero: by the routes
	BindIf           string         // bind_if; "" when unset
	FWMark           uint32         // fwmark of its packets; 0: none
	ConnectTimeout   time.Duration  // 5 s: also the overall deadline of one attempt
	DelayLoop        time.Duration  // 5 s (keepalived: 60 s), from "100ms"
	Retry            int            // 1; 0 with fall
	DelayBeforeRetry time.Duration  // 1 s; HTTP_GET and SSL_GET 3 s; at most DelayLoop
	DelayIfRefused   time.Duration  // the same after a refused connection: 50 ms where the file says nothing of retries
	Fall             int            // 1: failures in a row, each with its retries, that take a server down
	Rise             int            // 1: successes in a row that bring one back
	Warmup           time.Duration  // first check at a random time in 0..Warmup; = DelayLoop when unset
	Alpha            bool           // a new server is down until it passes
	LogAllFailures   bool           // log_all_failures, else checker_log_all_failures
	VirtualHost      string
	HTTPProtocol     string // "1.0", "1.0C", "1.1"
	SNI              string // sni_name of SSL_GET and GRPC_CHECK; "" sends none, but for EnableSNI
	EnableSNI        bool   // SSL_GET sends the virtualhost of each url; not with SNI
	Trust            Trust  // of SSL_GET
	URLs             []URL
	Helo             string   // helo_name of SMTP_CHECK
	DNS              Question // of DNS_CHECK

	Send   string // TCP_CHECK: what is sent; "": nothing
	Expect string // TCP_CHECK: regular expression (RE2) that the answer matches; "": none is waited for

	Payload            []byte // UDP_CHECK: what is sent; nil: random bytes
	Reply              Reply  // require_reply
	MinReply, MaxReply int    // lengths of the reply in bytes

	Service string // GRPC_CHECK: whose health is asked for; "": that of the server
	TLS     bool

	Argv    []string // MISC_CHECK: misc_path; misc_timeout is ConnectTimeout
	Dynamic bool     // misc_dynamic, dynamic
	User    User     // who runs it; zero: script_user

	File    string // FILE_CHECK: name of the track file
	Weight  int    // what its number is multiplied with, with Dynamic
	Reverse bool   // the sign is turned
}

// Trust is the SSL table of an SSL_GET, as PEM texts.
type Trust struct {
	CA          string // "": no certificate is verified
	Certificate string // "": none is shown
	Key         string // of it, without encryption
}

// Question is what a DNS_CHECK asks.
type Question struct {
	Type     string // "SOA"
	Name     string // with a dot at its end
	Protocol string // "UDP", "TCP"
	Answer   []string
}

// URL is one url table of HTTP_GET or SSL_GET.
type URL struct {
	Path        string
	Digest      string        // MD5 of the body, 32 hex digits; "" when unset
	StatusCodes []StatusRange // 200-299 when status_code is not set
	VirtualHost string

	Regex              string   // RE2; "": none
	RegexNoMatch       bool     // a match is a failure
	RegexOptions       []string // those that mean something, sorted
	RegexMin, RegexMax int      // offsets; RegexMax 0: none
	Compliant          bool     // tls_compliant
}

// StatusRange is an inclusive range of HTTP status codes.
type StatusRange struct{ From, To int }
