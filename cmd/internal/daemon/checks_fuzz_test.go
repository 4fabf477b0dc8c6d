package daemon

import (
	"strconv"
	"testing"
	"testing/fstest"

	"vipd/conf"
	"vipd/healthcheck"
)

// FuzzChecks: whatever a check is told, a configuration that is taken can be run. The
// number says which of these tables holds the value.
func FuzzChecks(f *testing.F) {
	tables := []func(string) string{
		func(v string) string { return "TCP_CHECK = { send = " + v + ", expect = \"x\" }" },
		func(v string) string { return "TCP_CHECK = { expect = " + v + " }" },
		func(v string) string { return "HTTP_GET = { url = { path = " + v + " } }" },
		func(v string) string { return "HTTP_GET = { virtualhost = " + v + ", url = {} }" },
		func(v string) string { return "HTTP_GET = { url = { virtualhost = " + v + " } }" },
		func(v string) string { return "HTTP_GET = { url = { status_code = " + v + " } }" },
		func(v string) string { return "HTTP_GET = { url = { digest = " + v + " } }" },
		func(v string) string {
			return "HTTP_GET = { url = { regex = " + v + ", regex_options = \"ungreedy\" } }"
		},
		func(v string) string { return "SSL_GET = { sni_name = " + v + ", url = {} }" },
		func(v string) string { return "SSL_GET = { enable_sni = true, virtualhost = " + v + ", url = {} }" },
		func(v string) string { return "SMTP_CHECK = { helo_name = " + v + " }" },
		func(v string) string { return "DNS_CHECK = { name = " + v + " }" },
		func(v string) string { return "DNS_CHECK = { type = " + v + " }" },
		func(v string) string { return "DNS_CHECK = { type = \"TXT\", answer = " + v + " }" },
		func(v string) string { return "DNS_CHECK = { type = \"MX\", answer = " + v + " }" },
		func(v string) string { return "UDP_CHECK = { payload = " + v + " }" },
		func(v string) string { return "UDP_CHECK = { require_reply = " + v + " }" },
		func(v string) string { return "GRPC_CHECK = { service = " + v + ", virtualhost = " + v + " }" },
		func(v string) string { return "GRPC_CHECK = { tls = true, sni_name = " + v + " }" },
		func(v string) string { return "MISC_CHECK = { misc_path = " + v + " }" },
	}
	for i := range tables {
		for _, v := range []string{"www example.org", "200-299 404", "^a$", "0001 8X", "10 mail.", "\"text\"", "a.b\\.c", "/bin/true 'x y'", "ä.example.", "A"} {
			f.Add(i, v)
		}
	}
	f.Fuzz(func(t *testing.T, which int, value string) {
		if which < 0 || which >= len(tables) {
			return
		}
		file := "[[virtual_server]]\naddress = \"203.0.113.10:80\"\n[[virtual_server.real_server]]\naddress = \"10.0.0.21:80\"\n" + tables[which](strconv.Quote(value)) + "\n"
		cfg, _ := conf.Load(fstest.MapFS{"vipd.toml": {Data: []byte(file)}}, "vipd.toml", conf.Env{Hostname: "d1"})
		if cfg == nil {
			return
		}
		r := &cfg.VirtualServers[0].RealServers[0]
		m := exampleMachine()
		for i := range r.Checks {
			job, err := m.job(identity(&cfg.VirtualServers[0]).String(), r, &r.Checks[i], healthcheck.Unknown)
			if err != nil {
				t.Fatalf("%s\nis taken, but: %v", file, err)
			}
			if job.Key == "" || job.Interval <= 0 || job.Timeout <= 0 {
				t.Fatalf("%s\nmakes %+v", file, job)
			}
		}
	})
}
