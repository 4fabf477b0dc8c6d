package conf

import (
	"fmt"
	"slices"
	"strings"
)

// section is one check of a real server.
func (k Check) section() section {
	return section{
		header: "[[virtual_server.real_server." + k.Kind + "]]",
		object: k.Kind,
		settings: []setting{
			{"connect_ip", k.Target.Addr()},
			{"connect_port", k.Target.Port()},
			{"bindto", k.Bind.Addr()},
			{"bind_if", k.BindIf},
			{"bind_port", unless(k.Bind.Port(), 0)},
			{"fwmark", unless(k.FWMark, 0)},
			{"connect_timeout", k.ConnectTimeout},
			{"delay_loop", k.DelayLoop},
			{"retry", k.Retry},
			{"delay_before_retry", k.DelayBeforeRetry},
			{"fall", k.Fall},
			{"rise", k.Rise},
			{"warmup", k.Warmup},
			{"alpha", k.Alpha},
			{"log_all_failures", k.LogAllFailures},
			{"http_protocol", k.HTTPProtocol},
			{"virtualhost", k.VirtualHost},
			{"sni_name", k.SNI},
			{"SSL", k.Trust.table()},
			{"helo_name", k.Helo},
			{"type", k.DNS.Type},
			{"name", k.DNS.Name},
			{"protocol", k.DNS.Protocol},
			{"answer", some(list(k.DNS.Answer))},
			{"url", some(inlines(each(k.URLs, URL.table)))},
		},
	}
}

// table is one entry of url.
func (u URL) table() inline {
	return inline{
		{"path", u.Path}, {"status_code", statusText(u.StatusCodes)}, {"digest", u.Digest}, {"virtualhost", u.VirtualHost},
		{"regex", u.Regex}, {"regex_no_match", unless(u.RegexNoMatch, false)}, {"regex_options", strings.Join(u.RegexOptions, " ")},
		{"regex_min_offset", unless(u.RegexMin, 0)}, {"regex_max_offset", unless(u.RegexMax, 0)}, {"tls_compliant", unless(u.Compliant, false)},
	}
}

// table is SSL. A file that names no certificates has none; a check must then not
// take those of the file that it is printed to, which has none either.
func (t Trust) table() any {
	out := inline{{"ca", hidden{t.CA}}, {"certificate", hidden{t.Certificate}}, {"key", hidden{t.Key}}}
	out = slices.DeleteFunc(out, func(s setting) bool { return s.value == hidden{""} })
	if len(out) == 0 {
		return unwritten{out}
	}
	return out
}

// statusText returns "200-299 301".
func statusText(ranges []StatusRange) string {
	words := make([]string, len(ranges))
	for i, r := range ranges {
		words[i] = fmt.Sprint(r.From)
		if r.To != r.From {
			words[i] = fmt.Sprintf("%d-%d", r.From, r.To)
		}
	}
	return strings.Join(words, " ")
}
