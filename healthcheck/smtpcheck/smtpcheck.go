// Package smtpcheck is SMTP_CHECK: the server is healthy when it greets and
// answers HELO. See README.md.
package smtpcheck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

// DefaultHelo is the helo_name of a check that has none: keepalived's.
const DefaultHelo = "smtpchecker.keepalived.org"

// farewell is how long the answer to QUIT is awaited. The check has passed by then.
const farewell = time.Second

// Config is what an SMTP_CHECK needs.
type Config struct {
	Target netip.AddrPort // the server
	Source healthcheck.Source
	Helo   string // helo_name; "" is DefaultHelo
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	return fmt.Sprintf("SMTP_CHECK %s%s helo %q", c.Target, c.Source.Key(), c.helo())
}

func (c Config) helo() string {
	if c.Helo == "" {
		return DefaultHelo
	}
	return c.Helo
}

// Checker is a healthcheck.Checker that has a short talk with a mail server.
type Checker struct {
	cfg  Config
	helo string // the line that is sent
}

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	if !cfg.Target.IsValid() || cfg.Target.Port() == 0 {
		return nil, fmt.Errorf("making SMTP_CHECK: %v is no address with a port", cfg.Target)
	}
	name := cfg.helo()
	if len(name) > 255 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("making SMTP_CHECK: helo_name %q has blanks or control characters, or is too long", name)
	}
	return &Checker{cfg: cfg, helo: "HELO " + name + "\r\n"}, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	conn, err := connect.Dial(ctx, c.cfg.Target, c.cfg.Source)
	if err != nil {
		return healthcheck.Result{Detail: err.Error(), Latency: time.Since(start), LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
	}
	defer conn.Close()
	greeting, err := c.converse(ctx, start, conn)
	latency := time.Since(start)
	if err != nil {
		return healthcheck.Result{Detail: healthcheck.OneLine(err.Error()), Latency: latency, LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
	}
	goodbye(ctx, conn)
	return healthcheck.Result{OK: true, Detail: healthcheck.OneLine(greeting + "; HELO answered 250"), Latency: latency}
}

// converse waits for the greeting, says HELO, and returns the greeting.
func (c *Checker) converse(ctx context.Context, start time.Time, conn io.ReadWriter) (string, error) {
	in := newReplies(conn)
	greeting, err := in.next()
	switch {
	case err != nil:
		return "", fmt.Errorf("greeting: %w", explain(ctx, start, err))
	case greeting.code != 220:
		return "", fmt.Errorf("the server greets with %q, wanted 220", greeting)
	}
	_, writeErr := io.WriteString(conn, c.helo)
	answer, err := in.next()
	switch {
	case err != nil && writeErr != nil:
		return "", fmt.Errorf("HELO: %w", explain(ctx, start, writeErr))
	case err != nil:
		return "", fmt.Errorf("answer to HELO: %w", explain(ctx, start, err))
	case answer.code != 250:
		return "", fmt.Errorf("HELO %s answered %q, wanted 250", c.cfg.helo(), answer)
	}
	return greeting.String(), nil
}

// goodbye leaves as a mail client should, so that the server does not log a lost
// connection. Whatever comes back, the check has passed.
func goodbye(ctx context.Context, conn connect.Stream) {
	if _, err := io.WriteString(conn, "QUIT\r\n"); err != nil {
		return
	}
	deadline := time.Now().Add(farewell)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	conn.Shorten(deadline)
	_, _ = bufio.NewReader(conn).ReadSlice('\n')
}

// explain turns an error of reading or writing into the operator's words.
func explain(ctx context.Context, start time.Time, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no complete reply within %s", connect.Within(ctx, start))
	case errors.Is(err, io.EOF):
		return errors.New("the server closed the connection")
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
