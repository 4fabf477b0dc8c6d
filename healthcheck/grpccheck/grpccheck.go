package grpccheck

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

// Checker is a healthcheck.Checker that asks a gRPC server for its health.
type Checker struct {
	cfg      Config
	question []byte
	tls      *tls.Config // nil: in the clear
	what     string
}

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	if !cfg.Target.IsValid() || cfg.Target.Port() == 0 {
		return nil, fmt.Errorf("making GRPC_CHECK: %v is no address with a port", cfg.Target)
	}
	c := &Checker{cfg: cfg, what: "health of the server"}
	if cfg.Service != "" {
		c.what = "health of " + cfg.Service
	}
	scheme := "http"
	if cfg.TLS {
		scheme = "https"
		// It asks whether the server answers, not who it is: see README.md.
		c.tls = &tls.Config{InsecureSkipVerify: true, ServerName: cfg.ServerName, NextProtos: []string{"h2"}}
	}
	c.question = question(scheme, cfg.authority(), request(cfg.Service))
	return c, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	detail, err := c.ask(ctx, start)
	if err != nil {
		return healthcheck.Result{Detail: healthcheck.OneLine(err.Error()), Latency: time.Since(start), LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
	}
	return healthcheck.Result{OK: true, Detail: healthcheck.OneLine(detail), Latency: time.Since(start)}
}

func (c *Checker) ask(ctx context.Context, start time.Time) (string, error) {
	conn, err := connect.Dial(ctx, c.cfg.Target, c.cfg.Source)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var line io.ReadWriter = conn
	if c.tls != nil {
		session := tls.Client(conn, c.tls)
		if err := session.Handshake(); err != nil {
			return "", fmt.Errorf("TLS handshake with %s: %w", c.cfg.Target, explain(ctx, start, err))
		}
		if p := session.ConnectionState().NegotiatedProtocol; p != "h2" {
			return "", fmt.Errorf("TLS handshake with %s: the server does not agree to HTTP/2", c.cfg.Target)
		}
		line = session
	}
	s := newSession(line)
	// A server that does not like the question may answer and end before it has
	// read it: an error of writing counts only when there is no answer either.
	_, writeErr := line.Write(c.question)
	answer, err := s.answer()
	if err != nil && s.read == 0 && writeErr != nil {
		err = writeErr
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.what, explain(ctx, start, err))
	}
	status, err := answer.judge()
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.what, err)
	}
	if status != serving {
		return "", fmt.Errorf("%s: %v", c.what, status)
	}
	return fmt.Sprintf("%s: %v", c.what, status), nil
}

// judge reads what the health service says, or why it says nothing.
func (r reply) judge() (servingStatus, error) {
	if code := r.fields[":status"]; code != "200" {
		return 0, fmt.Errorf("HTTP status %q, wanted 200: is this a gRPC server?", code)
	}
	switch code := r.fields["grpc-status"]; code {
	case "0":
		return response(r.body)
	case "":
		return 0, errors.New("the answer has no grpc-status: is this a gRPC server?")
	case "5":
		return 0, errors.New("the server does not know this service (grpc-status 5)")
	case "12":
		return 0, errors.New("the server has no health service grpc.health.v1 (grpc-status 12)")
	default:
		return 0, fmt.Errorf("grpc-status %.20q: %.100q", code, r.fields["grpc-message"])
	}
}

// explain turns an error of reading or writing into the operator's words.
func explain(ctx context.Context, start time.Time, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no complete answer within %s", connect.Within(ctx, start))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the server closed the connection before its answer was complete")
	}
	if header, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("the server does not speak TLS on this port, it begins with %q", header.RecordHeader)
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
