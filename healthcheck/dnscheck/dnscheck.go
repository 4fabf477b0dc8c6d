// Package dnscheck is DNS_CHECK: the server is healthy when it answers a query.
// See README.md.
package dnscheck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"

	"github.com/miekg/dns"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

// Config is what a DNS_CHECK needs.
type Config struct {
	Target netip.AddrPort // the server
	Source healthcheck.Source
	TCP    bool     // protocol; else UDP
	Name   string   // "" is "."
	Type   string   // name of a type of record; "" is SOA
	Answer []string // records, in presentation format without name, class and type, that the answer must hold
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	key := fmt.Sprintf("DNS_CHECK %s%s %s %s", c.Target, c.Source.Key(), c.name(), c.kind())
	if c.TCP {
		key += " TCP"
	}
	if len(c.Answer) > 0 {
		key += fmt.Sprintf(" %q", c.Answer)
	}
	return key
}

func (c Config) name() string {
	if c.Name == "" {
		return "."
	}
	return dns.Fqdn(c.Name)
}

func (c Config) kind() string {
	if c.Type == "" {
		return "SOA"
	}
	return c.Type
}

// Checker is a healthcheck.Checker that sends one query.
type Checker struct {
	cfg   Config
	query *query
}

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	if !cfg.Target.IsValid() || cfg.Target.Port() == 0 {
		return nil, fmt.Errorf("making DNS_CHECK: %v is no address with a port", cfg.Target)
	}
	q, err := newQuery(cfg.name(), cfg.kind(), cfg.Answer)
	if err != nil {
		return nil, fmt.Errorf("making DNS_CHECK: %w", err)
	}
	return &Checker{cfg, q}, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	detail, err := c.ask(ctx, start, c.cfg.TCP)
	if errors.Is(err, errTruncated) {
		detail, err = c.ask(ctx, start, true)
	}
	latency := time.Since(start)
	if err != nil {
		return healthcheck.Result{Detail: err.Error(), Latency: latency, LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
	}
	return healthcheck.Result{OK: true, Detail: detail, Latency: latency}
}

// ask sends the query once and judges the answer.
func (c *Checker) ask(ctx context.Context, start time.Time, tcp bool) (string, error) {
	id := uint16(rand.Uint32())
	if tcp {
		conn, err := connect.Dial(ctx, c.cfg.Target, c.cfg.Source)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		message := c.query.message(id)
		_, writeErr := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...))
		answer, err := frame(conn)
		if err != nil {
			if writeErr != nil {
				err = writeErr
			}
			return "", fmt.Errorf("%s: %w", c.query, explain(ctx, start, err))
		}
		detail, mine, err := c.query.judge(id, answer, tcp)
		if !mine {
			return "", fmt.Errorf("%s: what came over TCP is no answer to it", c.query)
		}
		return detail, err
	}
	conn, err := connect.UDP(ctx, "connect "+c.cfg.Target.String(), c.cfg.Target, c.cfg.Source)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write(c.query.message(id)); err != nil {
		return "", connect.Refusal("send to "+c.cfg.Target.String(), err)
	}
	return c.await(ctx, start, id, conn)
}

// await reads packets until one is the answer.
func (c *Checker) await(ctx context.Context, start time.Time, id uint16, conn io.Reader) (string, error) {
	var buffer [4096]byte // without EDNS an answer has 512 bytes at most
	for others := 0; ; others++ {
		n, err := conn.Read(buffer[:])
		switch {
		case err == io.EOF: // a packet without data
			continue
		case err != nil && errors.Is(err, os.ErrDeadlineExceeded):
			err = fmt.Errorf("%s: %w", c.query, explain(ctx, start, err))
			if others > 0 {
				err = fmt.Errorf("%w; %d packets were none", err, others)
			}
			return "", err
		case err != nil:
			return "", connect.Refusal("ask "+c.cfg.Target.String(), err)
		}
		if detail, mine, err := c.query.judge(id, buffer[:n], false); mine {
			return detail, err
		}
	}
}

// frame reads one message of a TCP connection (RFC 1035 §4.2.2).
func frame(conn io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, message)
	return message, err
}

// explain turns an error of reading or writing into the operator's words.
func explain(ctx context.Context, start time.Time, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("no answer within " + connect.Within(ctx, start))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the server closed the connection")
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
