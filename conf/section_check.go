package conf

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// section is one check of a real server.
func (k Check) section() section {
	s := section{header: "[[virtual_server.real_server." + k.Kind + "]]", object: k.Kind}
	s.settings = slices.Concat(k.connecting(), k.timing(), k.own())
	for _, kind := range checkKinds {
		for i := range s.settings {
			if set := &s.settings[i]; kind.name == k.Kind && kind.block.find(set.key) == nil && set.written() {
				set.value = unwritten{set.value}
			}
		}
	}
	return s
}

// fileWeight is the weight of FILE_CHECK, which only a dynamic one has.
func (k Check) fileWeight() any {
	if !k.Dynamic {
		return unwritten{weightOf(k.Weight, k.Reverse)}
	}
	return weightOf(k.Weight, k.Reverse)
}

// connecting are the settings that say how a check connects.
func (k Check) connecting() []setting {
	return []setting{
		{"connect_ip", k.Target.Addr()},
		{"connect_port", unless(k.Target.Port(), 0)},
		{"check_path", unless(k.pathWord(), "server")},
		{"bindto", k.Bind.Addr()},
		{"bind_if", k.BindIf},
		{"bind_port", unless(k.Bind.Port(), 0)},
		{"fwmark", unless(k.FWMark, 0)},
		{"connect_timeout", k.ConnectTimeout},
	}
}

func (k Check) pathWord() string {
	if k.Via.IsValid() {
		return "vip"
	}
	return "server"
}

// timing are the settings that say when a check runs and what its results mean.
func (k Check) timing() []setting {
	return []setting{
		{"delay_loop", k.DelayLoop},
		{"retry", k.Retry},
		{"delay_before_retry", k.DelayBeforeRetry},
		{"delay_if_refused", k.DelayIfRefused},
		{"fall", k.Fall},
		{"rise", k.Rise},
		{"warmup", k.Warmup},
		{"alpha", k.Alpha},
		{"log_all_failures", k.LogAllFailures},
	}
}

// own are the settings that not every kind has. Those of other kinds are empty.
func (k Check) own() []setting {
	return []setting{
		{"http_protocol", k.HTTPProtocol},
		{"virtualhost", k.VirtualHost},
		{"sni_name", k.SNI},
		{"enable_sni", unless(k.EnableSNI, false)},
		{"SSL", k.Trust.table()},
		{"helo_name", k.Helo},
		{"type", k.DNS.Type},
		{"name", k.DNS.Name},
		{"protocol", k.DNS.Protocol},
		{"answer", some(list(k.DNS.Answer))},
		{"url", some(inlines(each(k.URLs, URL.table)))},
		{"send", k.Send},
		{"expect", k.Expect},
		{"payload", hex.EncodeToString(k.Payload)},
		{"require_reply", k.Reply.text()},
		{"min_reply_length", unless(k.MinReply, 0)},
		{"max_reply_length", unless(k.MaxReply, k.usualReply())},
		{"service", k.Service},
		{"tls", unless(k.TLS, false)},
		{"misc_path", k.Argv},
		{"misc_timeout", k.ConnectTimeout},
		{"misc_dynamic", unless(k.Dynamic, false)},
		{"user", k.User.String()},
		{"track_file", k.File},
		{"dynamic", unless(k.Dynamic, false)},
		{"weight", k.fileWeight()},
	}
}

// usualReply is the default of max_reply_length, 0 for kinds that have none.
func (k Check) usualReply() int {
	if k.Kind == "UDP_CHECK" {
		return usualReply
	}
	return 0
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
