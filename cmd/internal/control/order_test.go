package control

import (
	"context"
	"os/user"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// An order arrives with who gave it; one that is refused says why.
func TestOrder(t *testing.T) {
	path := t.TempDir() + "/sock"
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, silentDaemon{}, zap.NewNop()) }()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	text, err := NewClient(path).Order(ctx, Order{Action: Drain, Server: "10.0.0.1", By: "somebody else"})
	if err != nil || !strings.HasPrefix(text, "drain 10.0.0.1 by ") || !strings.Contains(text, me.Username) || strings.Contains(text, "else") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := NewClient(path).Order(ctx, Order{Action: Drain}); err == nil || err.Error() != "no server" {
		t.Errorf("a refused order: %v", err)
	}
	if _, err := NewClient(path).Order(ctx, Order{Server: strings.Repeat("x", maxOrder)}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a long order: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
