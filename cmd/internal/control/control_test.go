package control

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"vipd/cmd/internal/status"
)

type silentDaemon struct{}

func (silentDaemon) Status(context.Context) (*status.Status, error) { return &status.Status{}, nil }
func (silentDaemon) Reload(context.Context) (string, error)         { return "", nil }

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
