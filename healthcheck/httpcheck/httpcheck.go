// Package httpcheck is HTTP_GET and SSL_GET: the server is healthy when it
// answers HTTP requests as wanted. See README.md for the rules.
package httpcheck

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

// Checker is a healthcheck.Checker that gets URLs, each over a connection of its
// own. While the server is sound an attempt gets one of them, each in its turn; at
// first and after a failure it gets all, from the one that failed on.
type Checker struct {
	cfg      Config
	requests []string         // one for each URL
	patterns []*regexp.Regexp // one for each URL; nil: none
	tls      []*tls.Config    // one for each URL; nil: HTTP_GET
	ok       string           // detail of a success of all

	sound bool // the last attempt passed
	next  int  // URL
}

// New makes the checker. The error says which setting is wrong.
func New(cfg Config) (*Checker, error) {
	c := &Checker{cfg: cfg}
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("making %s: %w", cfg.kind(), err)
	}
	c.ok = fmt.Sprintf("all %d URLs as wanted", len(cfg.URLs))
	return c, nil
}

// Same implements healthcheck.Keeper: the place among the URLs is kept.
func (c *Checker) Same(other healthcheck.Checker) bool {
	o, ok := other.(*Checker)
	return ok && o.cfg.Timeout == c.cfg.Timeout && o.cfg.Key() == c.cfg.Key()
}

// prepare makes what does not change between attempts.
func (c *Checker) prepare() (err error) {
	if err = c.cfg.validate(); err != nil {
		return err
	}
	c.patterns = make([]*regexp.Regexp, len(c.cfg.URLs))
	for i, u := range c.cfg.URLs {
		c.requests = append(c.requests, c.cfg.request(u))
		if u.Regex.Pattern == "" {
			continue
		}
		if c.patterns[i], err = u.Regex.compile(); err != nil {
			return fmt.Errorf("url %q: %w", u.path(), err)
		}
	}
	for _, u := range c.cfg.URLs {
		if !c.cfg.TLS {
			break
		}
		secure, err := c.cfg.tlsConfig(u)
		if err != nil {
			return err
		}
		c.tls = append(c.tls, secure)
	}
	return nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	n := len(c.cfg.URLs)
	count := n
	if c.sound {
		count = 1
	}
	detail := ""
	for range count {
		var err error
		if detail, err = c.url(ctx, c.next); err != nil {
			r := healthcheck.Result{Detail: healthcheck.OneLine(err.Error()), Latency: time.Since(start), LocalFault: connect.IsLocal(err), Refused: connect.IsRefused(err)}
			c.sound = c.sound && r.LocalFault
			return r
		}
		c.next = (c.next + 1) % n
	}
	c.sound = true
	if count > 1 {
		detail = c.ok
	}
	return healthcheck.Result{OK: true, Detail: detail, Latency: time.Since(start)}
}

// url gets one URL within its own time and says in words what came.
func (c *Checker) url(ctx context.Context, i int) (string, error) {
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}
	return c.get(ctx, time.Now(), i)
}

// get asks for one URL and says in words what came.
func (c *Checker) get(ctx context.Context, start time.Time, i int) (string, error) {
	conn, err := connect.Dial(ctx, c.cfg.Target, c.cfg.Source)
	if err != nil {
		return "", err // it names the target, which matters more than the URL
	}
	defer conn.Close()
	raw := &countedConn{Conn: conn}
	if c.tls == nil {
		return c.converse(ctx, start, i, stream{&counter{r: raw}, raw})
	}
	session := tls.Client(raw, c.tls[i])
	if err := session.Handshake(); err != nil {
		return "", fmt.Errorf("TLS handshake with %s: %w", c.cfg.Target, c.explain(ctx, start, err, raw.n))
	}
	in := &counter{r: session}
	if c.cfg.URLs[i].Compliant {
		in.closed = func() error {
			if raw.ended {
				return errNoCloseNotify
			}
			return nil
		}
	}
	return c.converse(ctx, start, i, stream{in, session})
}

var errNoCloseNotify = errors.New("the connection ended without close_notify (tls_compliant)")

// stream joins the two directions of a connection.
type stream struct {
	in *counter
	io.Writer
}

// converse sends the request and judges the reply.
func (c *Checker) converse(ctx context.Context, start time.Time, i int, conn stream) (string, error) {
	u, request := c.cfg.URLs[i], c.requests[i]
	// A server may answer and close before it has read the request, so an error
	// of writing counts only when there is no good reply either.
	_, writeErr := io.WriteString(conn, request)
	body := u.body()
	status, err := readReply(conn.in, body.writer())
	what := "GET " + u.path()
	if err != nil && status == 0 {
		if writeErr != nil && conn.in.n == 0 {
			err = writeErr
		}
		return "", fmt.Errorf("%s: %w", what, c.explain(ctx, start, err, conn.in.n))
	}
	if !u.accepts(status) {
		return "", fmt.Errorf("%s: status %d, wanted %s", what, status, u.wanted())
	}
	if err != nil {
		return "", fmt.Errorf("%s: status %d, but the body cannot be read: %w", what, status, c.explain(ctx, start, err, conn.in.n))
	}
	said := fmt.Sprintf("%s: status %d", what, status)
	if u.Digest != "" {
		if got := hex.EncodeToString(body.digest.Sum(nil)); !strings.EqualFold(got, u.Digest) {
			return "", fmt.Errorf("%s, digest %s, wanted %s", said, got, strings.ToLower(u.Digest))
		}
		said += ", digest as wanted"
	}
	if c.patterns[i] != nil {
		if err := u.Regex.judge(ctx, c.patterns[i], body.text.Bytes()); err != nil {
			return "", fmt.Errorf("%s, but %w", said, err)
		}
		said += ", body as wanted"
	}
	return said, nil
}

// body takes what is needed of a body.
type body struct {
	digest hash.Hash     // nil: not wanted
	text   *bytes.Buffer // nil: not wanted
	end    bool          // it must be read to its end for other reasons
}

func (u URL) body() body {
	b := body{end: u.Compliant}
	if u.Digest != "" {
		b.digest = md5.New()
	}
	if u.Regex.Pattern != "" {
		b.text = &bytes.Buffer{}
	}
	return b
}

// writer is where the body goes; nil: it need not be read.
func (b body) writer() io.Writer {
	switch {
	case b.digest != nil && b.text != nil:
		return io.MultiWriter(b.digest, b.text)
	case b.digest != nil:
		return b.digest
	case b.text != nil:
		return b.text
	case b.end:
		return io.Discard
	}
	return nil
}

func (u URL) accepts(status int) bool {
	return slices.ContainsFunc(u.statuses(), func(r StatusRange) bool { return r.From <= status && status <= r.To })
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

// countedConn counts the bytes that TLS reads, and notes the end of the connection.
type countedConn struct {
	net.Conn
	n     int
	ended bool
}

// Read implements net.Conn.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n += n
	c.ended = c.ended || err == io.EOF
	return n, err
}

// counter counts the bytes read.
type counter struct {
	r      io.Reader
	n      int
	closed func() error // judges the end of the stream; nil: any will do
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	if err == io.EOF && c.closed != nil {
		if bad := c.closed(); bad != nil {
			err = bad
		}
	}
	return n, err
}
