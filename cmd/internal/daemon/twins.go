package daemon

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

const (
	// twinEvery is how often a MASTER listens for others with its own address.
	twinEvery = 30 * time.Second
	// twinWindow is how many adverts of another it waits for, twinLeast and twinMost
	// for how long at least and at most.
	twinWindow = 2.5
	twinLeast  = time.Second
	twinMost   = 10 * time.Second
)

// twins finds another director with the very address that this one sends from: the
// kernel hides its adverts from every socket but one for frames, and both are
// masters.
type twins struct {
	router *router.Router
	host   func() *host.State
	hear   func(ctx context.Context, index int, src netip.Addr) (net.HardwareAddr, error)
	log    *zap.Logger
	masterSignal
}

func newTwins(r *router.Router, host func() *host.State, log *zap.Logger) *twins {
	return &twins{router: r, host: host, hear: socket.HearTwin, log: log, masterSignal: newMasterSignal()}
}

// Run listens now and then until ctx ends.
func (t *twins) Run(ctx context.Context) error {
	timer := time.NewTicker(twinEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.masterSignal:
		case <-timer.C:
		}
		t.look(ctx)
	}
}

// place is where adverts are listened for.
type place struct {
	iface string
	src   netip.Addr
}

// look listens once wherever an instance is MASTER over IPv4. (For IPv6, duplicate
// address detection finds the other.)
func (t *twins) look(ctx context.Context) {
	state := t.host()
	if state == nil {
		return
	}
	windows := map[place]time.Duration{}
	for _, r := range t.router.Status() {
		if r.Status.State != vrrp.Master || !r.Source.Is4() {
			continue
		}
		p := place{r.Interface, r.Source}
		windows[p] = max(windows[p], min(twinMost, max(twinLeast, time.Duration(twinWindow*float64(r.Config.AdvertInterval)))))
	}
	var all sync.WaitGroup
	defer all.Wait()
	for p, window := range windows {
		l := state.Link(p.iface)
		if l == nil || l.Loopback {
			continue
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, window)
			defer cancel()
			var mac net.HardwareAddr
			err := guard(func() (err error) {
				mac, err = t.hear(ctx, l.Index, p.src)
				return err
			})
			switch {
			case err != nil:
				t.log.Debug("cannot listen for another director with our address", zap.String("iface", p.iface), zap.NamedError("err", err))
			case mac != nil:
				t.router.Twin(p.iface, p.src, mac.String())
			}
		})
	}
}
