package control

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"vipd/cmd/internal/status"
)

type silentDaemon struct{}

func (silentDaemon) Status(context.Context) (*status.Status, error) { return &status.Status{}, nil }
func (silentDaemon) Reload(context.Context) (string, error)         { return "", nil }
func (silentDaemon) Order(_ context.Context, o Order) (string, error) {
	if o.Server == "" {
		return "", errors.New("no server")
	}
	return string(o.Action) + " " + o.Server + " by " + o.By, nil
}

// faultyListener fails for a moment, as accept does without a free descriptor.
type faultyListener struct {
	net.Listener
	failures chan error
}

type temporary struct{ error }

func (temporary) Temporary() bool { return true }
func (temporary) Timeout() bool   { return false }

func (l *faultyListener) Accept() (net.Conn, error) {
	select {
	case err := <-l.failures:
		return nil, err
	default:
		return l.Listener.Accept()
	}
}

// The trouble of the server is told by the daemon's log, and only there, and the
// socket answers afterwards.
func TestServeLogsItsTrouble(t *testing.T) {
	path := t.TempDir() + "/sock"
	inner, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l := &faultyListener{inner, make(chan error, 1)}
	l.failures <- temporary{errors.New("too many open files")}
	core, seen := observer.New(zap.InfoLevel)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, silentDaemon{}, zap.New(core)) }()
	if _, err := NewClient(path).Status(ctx); err != nil {
		t.Errorf("no status after the trouble: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := seen.FilterLevelExact(zap.WarnLevel).Len(); n != 1 {
		t.Errorf("%d warnings were logged, want the one about accept: %v", n, seen.All())
	}
}

// A socket that nobody listens on makes room; one of a daemon that does not get to
// answering, its queue full, is left to it.
func TestListenLeavesABusyDaemonItsSocket(t *testing.T) {
	path := t.TempDir() + "/sock"
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	waiting, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if l, err := Listen(path); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("beside a busy daemon: %v, %v", l, err)
	}
	unix.Close(fd)
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("after its death: %v", err)
	}
	l.Close()
}

// TestServeAfterTheSocketWasDeleted: the file comes back, with its directory, and is
// removed at the end.
func TestServeAfterTheSocketWasDeleted(t *testing.T) {
	dir := t.TempDir() + "/run"
	path := dir + "/sock"
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*socketEvery)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, silentDaemon{}, zap.NewNop()) }()
	for range 2 {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		for {
			_, err := NewClient(path).Status(ctx)
			if err == nil {
				break
			}
			if !errors.Is(err, ErrNotRunning) || ctx.Err() != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("the new socket: %v (%v)", fi, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}
