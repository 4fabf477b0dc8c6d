package daemon

import (
	"fmt"
	"slices"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/dnscheck"
	"vipd/healthcheck/grpccheck"
	"vipd/healthcheck/httpcheck"
	"vipd/healthcheck/pingcheck"
	"vipd/healthcheck/run"
	"vipd/healthcheck/smtpcheck"
	"vipd/healthcheck/tcpcheck"
	"vipd/healthcheck/udpcheck"
)

// checkers is the list of all kinds of check: a new kind is one package and one
// line here. The key names everything that decides the result.
var checkers = map[string]func(*conf.Check) (key string, c healthcheck.Checker, err error){
	"TCP_CHECK": func(c *conf.Check) (string, healthcheck.Checker, error) {
		cfg := tcpcheck.Config{Target: c.Target, Source: source(c), Send: c.Send, Expect: c.Expect}
		check, err := tcpcheck.New(cfg)
		return cfg.Key(), check, err
	},
	"HTTP_GET": httpChecker,
	"SSL_GET":  httpChecker,
	"SMTP_CHECK": func(c *conf.Check) (string, healthcheck.Checker, error) {
		cfg := smtpcheck.Config{Target: c.Target, Source: source(c), Helo: c.Helo}
		check, err := smtpcheck.New(cfg)
		return cfg.Key(), check, err
	},
	"DNS_CHECK": func(c *conf.Check) (string, healthcheck.Checker, error) {
		cfg := dnscheck.Config{
			Target: c.Target, Source: source(c), TCP: c.DNS.Protocol == "TCP", Name: c.DNS.Name, Type: c.DNS.Type, Answer: c.DNS.Answer,
		}
		check, err := dnscheck.New(cfg)
		return cfg.Key(), check, err
	},
	"UDP_CHECK": func(c *conf.Check) (string, healthcheck.Checker, error) {
		cfg := udpcheck.Config{Target: c.Target, Source: source(c), Payload: c.Payload, Require: c.Reply.Required, Min: c.MinReply, Max: c.MaxReply}
		cfg.Reply.Bytes, cfg.Reply.Mask = c.Reply.Bytes()
		check, err := udpcheck.New(cfg)
		return cfg.Key(), check, err
	},
	"PING_CHECK": func(c *conf.Check) (string, healthcheck.Checker, error) {
		cfg := pingcheck.Config{Target: c.Target.Addr(), Source: source(c)}
		check, err := pingcheck.New(cfg)
		return cfg.Key(), check, err
	},
	"GRPC_CHECK": func(c *conf.Check) (string, healthcheck.Checker, error) {
		cfg := grpccheck.Config{Target: c.Target, Source: source(c), Service: c.Service, TLS: c.TLS, ServerName: c.SNI, Authority: c.VirtualHost}
		check, err := grpccheck.New(cfg)
		return cfg.Key(), check, err
	},
}

// source is where a check comes from.
func source(c *conf.Check) healthcheck.Source {
	return healthcheck.Source{Bind: c.Bind, Interface: c.BindIf, Mark: c.FWMark, Via: c.Via}
}

func httpChecker(c *conf.Check) (string, healthcheck.Checker, error) {
	cfg := httpcheck.Config{
		Target: c.Target, Source: source(c), TLS: c.Kind == "SSL_GET", ServerName: c.SNI, Trust: httpcheck.Trust(c.Trust),
		VirtualHost: c.VirtualHost, Protocol: httpcheck.Protocol(c.HTTPProtocol), Timeout: c.ConnectTimeout,
	}
	for _, u := range c.URLs {
		url := httpcheck.URL{Path: u.Path, Digest: u.Digest, VirtualHost: u.VirtualHost, Regex: regex(u), Compliant: u.Compliant}
		if c.EnableSNI {
			url.ServerName = u.VirtualHost
		}
		for _, s := range u.StatusCodes {
			url.Status = append(url.Status, httpcheck.StatusRange(s))
		}
		cfg.URLs = append(cfg.URLs, url)
	}
	check, err := httpcheck.New(cfg)
	return cfg.Key(), check, err
}

func regex(u conf.URL) httpcheck.Regex {
	has := func(option string) bool { return slices.Contains(u.RegexOptions, option) }
	return httpcheck.Regex{
		Pattern: u.Regex, NoMatch: u.RegexNoMatch, MinOffset: u.RegexMin, MaxOffset: u.RegexMax,
		Options: httpcheck.RegexOptions{
			Caseless: has("caseless"), DollarEndOnly: has("dollar_endonly"), DotAll: has("dotall"),
			FirstLine: has("firstline"), Multiline: has("multiline"), Ungreedy: has("ungreedy"),
		},
	}
}

// job makes the check of one server of one service. Its key does not say whose it
// is: see share.
func (m *machine) job(service string, server *conf.RealServer, c *conf.Check, inherit healthcheck.Verdict) (run.Job, error) {
	key, checker, err := m.checker(c)
	if err != nil {
		return run.Job{}, fmt.Errorf("making the %s of %s in %s: %w", c.Kind, server.Address, service, err)
	}
	if inherit == healthcheck.Unknown && c.Alpha {
		inherit = healthcheck.Down
	}
	return run.Job{
		Key: key, Checker: checker, Interval: c.DelayLoop, Timeout: limit(c),
		Limits:           healthcheck.Limits{Retry: c.Retry, Fall: c.Fall, Rise: c.Rise},
		DelayBeforeRetry: c.DelayBeforeRetry, DelayIfRefused: c.DelayIfRefused, Warmup: c.Warmup, Inherit: inherit, LogFailures: c.LogAllFailures,
		Fields: []zap.Field{
			zap.String("service", service), zap.Stringer("dest", server.Address), zap.String("check", c.Kind),
		},
	}, nil
}
