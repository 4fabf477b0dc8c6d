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

// New makes the checker: a [*Checker], or a [*Connector] where connecting is all. The
// error says what is wrong with the settings.
func New(cfg Config) (healthcheck.Checker, error) {
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
	if c.expect == nil && cfg.Send == "" && !cfg.Source.Via.IsValid() {
		return &Connector{Checker: c, attempt: connect.NewAttempt(cfg.Target, cfg.Source)}, nil
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

// Connector is a Checker for which connecting is all: a [healthcheck.Waiter].
type Connector struct {
	*Checker
	attempt *connect.Attempt
}

// Begin implements healthcheck.Waiter.
func (c *Connector) Begin() (fd int, r healthcheck.Result) {
	fd, err := c.attempt.Begin()
	if err != nil {
		return -1, failure(err)
	}
	return fd, healthcheck.Result{}
}

// End implements healthcheck.Waiter.
func (c *Connector) End(fd int, why healthcheck.Reason, limit time.Duration) healthcheck.Result {
	if err := c.attempt.End(fd, why, limit); err != nil {
		return failure(err)
	}
	return healthcheck.Result{OK: true, Detail: c.ok}
}

func failure(err error) healthcheck.Result {
	return healthcheck.Result{Detail: err.Error(), LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
}
