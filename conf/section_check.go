package conf

import (
	"fmt"
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
			{"url", some(inlines(each(k.URLs, URL.table)))},
		},
	}
}

// table is one entry of url.
func (u URL) table() inline {
	return inline{{"path", u.Path}, {"status_code", statusText(u.StatusCodes)}, {"digest", u.Digest}, {"virtualhost", u.VirtualHost}}
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
