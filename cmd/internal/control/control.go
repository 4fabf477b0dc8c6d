// Package control is the daemon's control socket: HTTP over a unix socket that
// only root may open, and the client that the subcommands use.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/cmd/internal/status"
)

// runDir is where daemons live, each in a directory of its own.
const runDir = "/run"

// SocketOf is where the daemon with a name listens when neither --socket nor
// VIPD_SOCKET says otherwise; "" is that of a configuration without instance and
// net_namespace.
func SocketOf(name string) string {
	dir := "vipd"
	if name != "" {
		dir += "-" + name
	}
	return filepath.Join(runDir, dir, "vipd.sock")
}

// others names the daemons that have a socket in the usual place, for an operator who
// asked for another.
func others(path string) string {
	found, _ := filepath.Glob(filepath.Join(runDir, "vipd-*", "vipd.sock")) // the pattern is good
	var names []string
	for _, f := range found {
		if f != path {
			names = append(names, "--instance "+strings.TrimPrefix(filepath.Base(filepath.Dir(f)), "vipd-"))
		}
	}
	if len(names) == 0 || path != SocketOf("") {
		return ""
	}
	return "; there are others: " + strings.Join(names[:min(len(names), 10)], ", ")
}

// callTimeout bounds a client's call, and the server's reading of a request.
const callTimeout = 10 * time.Second

// socketEvery is how often the socket's file is looked for. It wakes up a process that
// sleeps otherwise.
const socketEvery = 5 * time.Second

// maxPath is the longest path of a unix socket (sun_path without its zero byte).
const maxPath = 107

// ErrNotRunning says that no daemon listens on the socket.
var ErrNotRunning = errors.New("vipd is not running")

// Daemon is what the socket asks of the daemon.
type Daemon interface {
	Status(ctx context.Context) (*status.Status, error)
	Reload(ctx context.Context) (string, error)
	// Order does what an operator tells about real servers, and says what follows.
	Order(ctx context.Context, o Order) (string, error)
}

// Listen makes the socket. A socket that a dead daemon left is removed; one that
// a live daemon has is an error, even if that one is too busy to answer.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("the path of the control socket %s is longer than the %d bytes the kernel allows: give a shorter --socket", path, maxPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the control socket: %w", err)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		return nil, fmt.Errorf("another vipd answers on %s: stop it, or give this one its own --socket and --state-dir", path)
	case errors.Is(err, unix.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded): // its queue is full
		return nil, fmt.Errorf("another vipd listens on %s and does not answer: stop it, or give this one its own --socket and --state-dir", path)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("protecting the control socket: %w", err)
	}
	return l, nil
}

// removeStale removes a socket that nobody answers on, and nothing else.
func removeStale(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err == nil && fi.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("the control socket cannot be made: %s exists and is no socket; give another --socket", path)
	case err == nil:
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("removing a stale control socket: %w", err)
	}
	return nil
}

// Serve answers on l until ctx ends. What goes wrong with single connections is
// logged.
func Serve(ctx context.Context, l net.Listener, d Daemon, log *zap.Logger) error {
	errorLog, err := zap.NewStdLogAt(log, zap.WarnLevel)
	if err != nil {
		return fmt.Errorf("serving the control socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		s, err := d.Status(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		_ = enc.Encode(s) // the client is gone: nobody to tell
	})
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, r *http.Request) {
		text, err := d.Reload(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, text)
	})
	mux.HandleFunc("POST /v1/order", func(w http.ResponseWriter, r *http.Request) { order(w, r, d) })
	srv := &http.Server{Handler: mux, ReadTimeout: callTimeout, ErrorLog: errorLog, ConnContext: withPeer}
	look := time.NewTicker(socketEvery)
	defer look.Stop()
	for {
		done := make(chan error, 1)
		go func() { done <- srv.Serve(l) }()
		next := (net.Listener)(nil)
		for next == nil {
			select {
			case err := <-done:
				return fmt.Errorf("serving the control socket: %w", err)
			case <-ctx.Done():
				_ = srv.Close()
				<-done
				return nil
			case <-look.C:
				next = again(l, log)
			}
		}
		_ = l.Close()
		<-done
		l = next
	}
}

// again makes the socket anew when its file is gone, as after /run was cleared: nobody
// could reach the daemon any more. It is nil while that is not needed, or not possible.
func again(l net.Listener, log *zap.Logger) net.Listener {
	path := l.Addr().String()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return nil
	}
	next, err := Listen(path)
	if err != nil {
		log.Debug("the control socket is gone", zap.NamedError("err", err))
		return nil
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the file is the new one's
	}
	log.Warn("the control socket was deleted; it is there again", zap.String("socket", path))
	return next
}

// Client talks to a daemon.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client for the socket at path.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{
		Timeout:   callTimeout,
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	}}
}

// Status asks for the daemon's status, as the JSON it sent.
func (c *Client) Status(ctx context.Context) ([]byte, error) {
	return c.call(ctx, http.MethodGet, "/v1/status", nil)
}

// Order has the daemon do what is told about real servers, and returns what follows.
func (c *Client) Order(ctx context.Context, o Order) (string, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("writing an order: %w", err)
	}
	b, err := c.call(ctx, http.MethodPost, "/v1/order", bytes.NewReader(body))
	return string(b), err
}

// Reload asks the daemon to read its configuration again and returns what it
// changed. An error holds the diagnostics of a refused configuration.
func (c *Client) Reload(ctx context.Context) (string, error) {
	b, err := c.call(ctx, http.MethodPost, "/v1/reload", nil)
	return string(b), err
}

func (c *Client) call(ctx context.Context, method, path string, send io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://vipd"+path, send)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w (nothing answers on %s; start it with: vipd run%s)", ErrNotRunning, c.path, others(c.path))
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("the control socket %s may be used by root only: %w", c.path, unix.EACCES)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("vipd on %s has not answered for %v: it is stopped, stuck or short of CPU; look at its log and its process state: %w", c.path, c.http.Timeout, context.DeadlineExceeded)
	case err != nil:
		return nil, fmt.Errorf("asking vipd on %s: %w", c.path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of vipd: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(string(bytes.TrimSpace(body)))
	}
	return body, nil
}
