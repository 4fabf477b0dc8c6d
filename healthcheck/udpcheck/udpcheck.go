// Package udpcheck is UDP_CHECK: the server is healthy when a datagram to it is
// answered as wanted, or at least not refused. See README.md.
package udpcheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

const randomPayload = 16 // bytes, where none is configured

// Config is what a UDP_CHECK needs.
type Config struct {
	Target  netip.AddrPort // the server
	Source  healthcheck.Source
	Payload []byte // what is sent; nil: 16 random bytes each time
	// Require wants an answer. Without it a server passes that reports no error
	// until the end of the attempt.
	Require  bool
	Min, Max int     // lengths that an answer may have, in bytes
	Reply    Pattern // what the answer must begin with, as far as both are long
}

// Pattern is what bytes are compared with: those of Bytes where Mask is set. Both
// are of one length.
type Pattern struct{ Bytes, Mask []byte }

// Mismatch returns the position of the first byte of data that differs, or -1.
// What is beyond the shorter of the two is not compared.
func (p Pattern) Mismatch(data []byte) int {
	for i := range min(len(p.Bytes), len(data)) {
		if (data[i]^p.Bytes[i])&p.Mask[i] != 0 {
			return i
		}
	}
	return -1
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	text := fmt.Sprintf("UDP_CHECK %s%s", c.Target, c.Source.Key())
	if c.Payload != nil {
		text += fmt.Sprintf(" payload %x", c.Payload)
	}
	if c.Require {
		text += fmt.Sprintf(" reply %d-%d %x/%x", c.Min, c.Max, c.Reply.Bytes, c.Reply.Mask)
	}
	return text
}

// Checker is a healthcheck.Checker that sends one datagram and waits for what comes.
type Checker struct{ cfg Config }

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	switch {
	case !cfg.Target.IsValid() || cfg.Target.Port() == 0:
		return nil, fmt.Errorf("making UDP_CHECK: %v is no address with a port", cfg.Target)
	case len(cfg.Reply.Bytes) != len(cfg.Reply.Mask):
		return nil, fmt.Errorf("making UDP_CHECK: a pattern of %d bytes has a mask of %d", len(cfg.Reply.Bytes), len(cfg.Reply.Mask))
	case cfg.Require && (cfg.Min < 0 || cfg.Max < cfg.Min):
		return nil, fmt.Errorf("making UDP_CHECK: no answer can be %d to %d bytes long", cfg.Min, cfg.Max)
	}
	return &Checker{cfg: cfg}, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	detail, err := c.ask(ctx, start)
	if err != nil {
		return healthcheck.Result{Detail: err.Error(), Latency: time.Since(start), LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
	}
	return healthcheck.Result{OK: true, Detail: detail, Latency: time.Since(start)}
}

func (c *Checker) ask(ctx context.Context, start time.Time) (string, error) {
	op := "udp " + c.cfg.Target.String()
	conn, err := connect.UDP(ctx, op, c.cfg.Target, c.cfg.Source)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	payload := c.cfg.Payload
	if payload == nil {
		payload = make([]byte, randomPayload)
		_, _ = rand.Read(payload) // never fails
	}
	// An error of an earlier datagram's may still be reported here.
	if _, err := conn.Write(payload); err != nil {
		return "", c.failure(ctx, op, start, err)
	}
	// Many checks wait at once, so none holds room for more than it looks at.
	answer := make([]byte, max(len(c.cfg.Reply.Bytes), 1))
	n, err := conn.Receive(answer)
	switch {
	case err == nil:
		return c.judge(op, answer[:min(n, len(answer))], n)
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.cfg.Require && !errors.Is(ctx.Err(), context.Canceled):
		return fmt.Sprintf("%s: no error within %s", op, connect.Within(ctx, start)), nil
	}
	return "", c.failure(ctx, op, start, err)
}

// judge says whether an answer of this length, and with this beginning, is as wanted.
func (c *Checker) judge(op string, answer []byte, length int) (string, error) {
	ok := fmt.Sprintf("%s: %d bytes in answer", op, length)
	if !c.cfg.Require {
		return ok, nil
	}
	if length < c.cfg.Min || length > c.cfg.Max {
		return "", fmt.Errorf("%s, wanted %d to %d", ok, c.cfg.Min, c.cfg.Max)
	}
	if i := c.cfg.Reply.Mismatch(answer); i >= 0 {
		return "", fmt.Errorf("%s, but byte %d of it is %02x, wanted %s", ok, i, answer[i], wanted(c.cfg.Reply.Bytes[i], c.cfg.Reply.Mask[i]))
	}
	return ok + " as wanted", nil
}

// wanted shows a byte of a pattern as it is written in require_reply.
func wanted(b, mask byte) string {
	text := []byte(fmt.Sprintf("%02x", b))
	if mask&0xf0 == 0 {
		text[0] = 'X'
	}
	if mask&0x0f == 0 {
		text[1] = 'X'
	}
	return string(text)
}

// failure puts an error of reading or writing in words.
func (c *Checker) failure(ctx context.Context, op string, start time.Time, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return connect.Timeout(ctx, op, start)
	}
	e := connect.Refusal(op, err)
	if errors.Is(err, syscall.ECONNREFUSED) {
		e.Hint = "nobody listens on this port"
	}
	return e
}
