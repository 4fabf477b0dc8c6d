// Package grpccheck is GRPC_CHECK: the server is healthy when its gRPC health
// service (grpc.health.v1) says SERVING. It speaks just so much HTTP/2 (RFC 9113)
// as one such question needs. See README.md.
package grpccheck

import (
	"fmt"
	"net/netip"

	"vipd/healthcheck"
)

// Config is what a GRPC_CHECK needs.
type Config struct {
	Target     netip.AddrPort // the server
	Source     healthcheck.Source
	Service    string // whose health is asked for; "": that of the whole server
	TLS        bool   // HTTP/2 inside TLS; the certificate is not verified
	ServerName string // SNI; "" sends none
	Authority  string // the name that the server is called by; "": the target
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	text := fmt.Sprintf("GRPC_CHECK %s%s service %q", c.Target, c.Source.Key(), c.Service)
	if c.TLS {
		text += fmt.Sprintf(" tls sni %q", c.ServerName)
	}
	if c.Authority != "" {
		text += fmt.Sprintf(" authority %q", c.Authority)
	}
	return text
}

func (c Config) authority() string {
	if c.Authority != "" {
		return c.Authority
	}
	return c.Target.String()
}
