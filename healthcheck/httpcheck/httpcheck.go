// Package httpcheck is HTTP_GET and SSL_GET: the server is healthy when it
// answers HTTP requests as wanted. See README.md for the rules.
package httpcheck

import (
	"context"
	"crypto/md5"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

// Checker is a healthcheck.Checker that gets URLs, each over a connection of
// its own, all within the deadline of one attempt.
type Checker struct {
	cfg      Config
	requests []string    // one for each URL
	tls      *tls.Config // nil: HTTP_GET
	ok       string      // detail of a success
}

// New makes the checker. The error says which setting is wrong.
func New(cfg Config) (*Checker, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("making %s: %w", cfg.kind(), err)
	}
	c := &Checker{cfg: cfg}
	for _, u := range cfg.URLs {
		c.requests = append(c.requests, cfg.request(u))
	}
	if cfg.TLS {
		c.tls = tlsConfig(cfg.ServerName)
	}
	c.ok = fmt.Sprintf("all %d URLs as wanted", len(cfg.URLs))
	return c, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	detail := ""
	for i := range c.cfg.URLs {
		var err error
		if detail, err = c.get(ctx, start, i); err != nil {
			return healthcheck.Result{Detail: oneLine(err.Error()), Latency: time.Since(start), LocalFault: connect.IsLocal(err)}
		}
	}
	if len(c.cfg.URLs) > 1 {
		detail = c.ok
	}
	return healthcheck.Result{OK: true, Detail: detail, Latency: time.Since(start)}
}

// get asks for one URL and says in words what came.
func (c *Checker) get(ctx context.Context, start time.Time, i int) (string, error) {
	conn, err := connect.Dial(ctx, c.cfg.Target, c.cfg.Bind)
	if err != nil {
		return "", err // it names the target, which matters more than the URL
	}
	defer conn.Close()
	u, request := c.cfg.URLs[i], c.requests[i]
	if c.tls == nil {
		in := &counter{r: conn}
		return c.converse(ctx, start, u, request, stream{in, conn}, in)
	}
	raw := &countedConn{Conn: conn}
	session := tls.Client(raw, c.tls)
	if err := session.Handshake(); err != nil {
		return "", fmt.Errorf("TLS handshake with %s: %w", c.cfg.Target, c.explain(ctx, start, err, raw.n))
	}
	in := &counter{r: session}
	return c.converse(ctx, start, u, request, stream{in, session}, in)
}

// stream joins the two directions of a connection.
type stream struct {
	io.Reader
	io.Writer
}

// converse sends the request and judges the reply.
func (c *Checker) converse(ctx context.Context, start time.Time, u URL, request string, conn io.ReadWriter, in *counter) (string, error) {
	// A server may answer and close before it has read the request, so an error
	// of writing counts only when there is no good reply either.
	_, writeErr := io.WriteString(conn, request)
	digest := md5.New()
	var body io.Writer
	if u.Digest != "" {
		body = digest
	}
	status, err := readReply(conn, body)
	what := "GET " + u.path()
	if err != nil && status == 0 {
		if writeErr != nil && in.n == 0 {
			err = writeErr
		}
		return "", fmt.Errorf("%s: %w", what, c.explain(ctx, start, err, in.n))
	}
	if !u.accepts(status) {
		return "", fmt.Errorf("%s: status %d, wanted %s", what, status, u.wanted())
	}
	if err != nil {
		return "", fmt.Errorf("%s: status %d, but the body cannot be read: %w", what, status, c.explain(ctx, start, err, in.n))
	}
	if u.Digest == "" {
		return fmt.Sprintf("%s: status %d", what, status), nil
	}
	if got := hex.EncodeToString(digest.Sum(nil)); !strings.EqualFold(got, u.Digest) {
		return "", fmt.Errorf("%s: status %d, digest %s, wanted %s", what, status, got, strings.ToLower(u.Digest))
	}
	return fmt.Sprintf("%s: status %d, digest as wanted", what, status), nil
}

func (u URL) accepts(status int) bool {
	ranges := u.statuses()
	for _, r := range ranges {
		if r.From <= status && status <= r.To {
			return true
		}
	}
	return len(ranges) == 0
}

// explain turns an error of reading or writing into the operator's words.
func (c *Checker) explain(ctx context.Context, start time.Time, err error, got int) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no complete reply within %s (got %d bytes)", connect.Within(ctx, start), got)
	case err == io.EOF || err == errCut:
		return fmt.Errorf("%w (got %d bytes)", errCut, got)
	}
	if header, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("the server does not speak TLS on this port, it begins with %q: check it with HTTP_GET", header.RecordHeader)
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return fmt.Errorf("%w (got %d bytes)", pathErr.Err, got)
	}
	return err
}

// oneLine keeps a detail, which may quote the server, to one line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '.'
		}
		return r
	}, s)
}

// countedConn counts the bytes that TLS reads.
type countedConn struct {
	*connect.Conn
	n int
}

// Read implements net.Conn.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n += n
	return n, err
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n int
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}
