// Package tcpcheck is TCP_CHECK: the server is healthy when a TCP connection
// to it can be made, and says what it should. See README.md.
package tcpcheck

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

// Checker is a healthcheck.Checker that connects, talks and closes.
type Checker struct {
	cfg    Config
	expect *regexp.Regexp // nil: nothing is waited for
	ok     string
}

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	if !cfg.Target.IsValid() || cfg.Target.Port() == 0 {
		return nil, fmt.Errorf("making TCP_CHECK: %v is no address with a port", cfg.Target)
	}
	c := &Checker{cfg: cfg, ok: "connected to " + cfg.Target.String()}
	if cfg.Expect != "" {
		var err error
		if c.expect, err = regexp.Compile(cfg.Expect); err != nil {
			return nil, fmt.Errorf("making TCP_CHECK: expect: %w", err)
		}
	}
	return c, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	conn, err := connect.Dial(ctx, c.cfg.Target, c.cfg.Source)
	latency := time.Since(start)
	if err != nil {
		return healthcheck.Result{Detail: err.Error(), Latency: latency, LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
	}
	defer conn.Close()
	if c.cfg.Send == "" && c.expect == nil {
		return healthcheck.Result{OK: true, Detail: c.ok, Latency: latency}
	}
	detail, err := c.talk(ctx, start, conn)
	if err != nil {
		return healthcheck.Result{Detail: err.Error(), Latency: time.Since(start), LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
	}
	return healthcheck.Result{OK: true, Detail: detail, Latency: time.Since(start)}
}
