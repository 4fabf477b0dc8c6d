// Package tcpcheck is TCP_CHECK: the server is healthy when a TCP connection
// to it can be made. See README.md.
package tcpcheck

import (
	"context"
	"fmt"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

// Checker is a healthcheck.Checker that connects and closes.
type Checker struct {
	cfg Config
	ok  string
}

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	if !cfg.Target.IsValid() || cfg.Target.Port() == 0 {
		return nil, fmt.Errorf("making TCP_CHECK: %v is no address with a port", cfg.Target)
	}
	return &Checker{cfg: cfg, ok: "connected to " + cfg.Target.String()}, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	conn, err := connect.Dial(ctx, c.cfg.Target, c.cfg.Source)
	latency := time.Since(start)
	if err != nil {
		return healthcheck.Result{Detail: err.Error(), Latency: latency, LocalFault: connect.IsLocal(err)}
	}
	conn.Close()
	return healthcheck.Result{OK: true, Detail: c.ok, Latency: latency}
}
