package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"vipd/cmd/internal/settings/linksysctl"
	"vipd/conf"
	"vipd/garp/engine"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/packet"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

// TestGuard: a part that panics ends the others as one that fails does, and the
// reason says where.
func TestGuard(t *testing.T) {
	g, ctx := errgroup.WithContext(t.Context())
	g.Go(func() error { return guard(func() error { panic("a fault") }) })
	g.Go(func() error { return guard(func() error { <-ctx.Done(); return nil }) })
	err := g.Wait()
	if err == nil || !strings.HasPrefix(err.Error(), "panic: a fault\n") || !strings.Contains(err.Error(), "TestGuard") {
		t.Errorf("the error is %v", err)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		t.Errorf("the cause is %v, want %v", cause, err)
	}
}

// idle does nothing for a router.
type idle struct{}

func (idle) SendAdvert(string, netip.Addr, *packet.Advert) error { return nil }
func (idle) Sync([]router.Endpoint) map[string]error             { return nil }
func (idle) Listening(string) error                              { return nil }
func (idle) Want(string, bool)                                   {}
func (idle) Announce(string, vrrp.Burst)                         {}
func (idle) Stop(string)                                         {}
func (idle) Source(_, _ string, _ netip.Addr)                    {}
func (idle) Transition(router.TransitionEvent)                   {}
func (idle) Priority(router.PriorityEvent)                       {}
func (idle) Dropped(router.Drop)                                 {}
func (idle) Note(router.Note)                                    {}

// TestFeedEndsWithTheNewestSnapshot: a reload judges the last snapshot again while
// the watcher publishes the next one. What the router hears last must be the newest,
// or it would stay MASTER on a dead link until something else changes.
func TestFeedEndsWithTheNewestSnapshot(t *testing.T) {
	r := router.New(router.Ports{Sender: idle{}, Addresses: idle{}, Announcer: idle{}, Observer: idle{}})
	f := &feed{vmacs: vmac.NewManager(nil, nil, t.TempDir(), nil, nil, nil), settings: linksysctl.New(t.TempDir(), t.TempDir()+"/s"), log: zap.NewNop(), manager: host.NewManager(hosttest.New(), hosttest.New(), "", host.Callbacks{}, nil), router: r, engine: engine.New(nil, zap.NewNop())}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	cfg := &conf.Config{Instances: []conf.Instance{{Name: "VI_1", Interface: "eth0", VRID: 51, Version: 3, Priority: 100,
		AdvertInterval: time.Second, Group: socket.Group4}}}
	if err := r.Apply(ctx, routerInstances(cfg)); err != nil {
		t.Fatal(err)
	}
	sets := hostSets(cfg)
	f.SetVIPs(sets)
	state := func(up bool, others int) host.State {
		l := &host.Link{Name: "eth0", Index: 2, Up: up, Running: up}
		l.Addrs = []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.1/24")}}
		links := map[string]*host.Link{"eth0": l}
		for i := range others {
			name := fmt.Sprintf("veth%d", i)
			links[name] = &host.Link{Name: name, Index: 3 + i, Addrs: l.Addrs}
		}
		return host.State{Links: links, At: time.Now()}
	}
	for i := range 100 {
		f.Snapshot(state(true, 1000)) // judging this one takes longer than the next
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { f.SetVIPs(sets) })
		}
		wg.Go(func() { f.Snapshot(state(false, 0)) })
		wg.Wait()
		if got := r.Status()[0].Status; got.State != vrrp.Fault {
			t.Fatalf("round %d: %v with the link down (%s)", i, got.State, got.Reason)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
