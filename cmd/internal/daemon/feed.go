package daemon

import (
	"maps"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"vipd/cmd/internal/settings/linksysctl"
	"vipd/garp"
	"vipd/garp/engine"
	"vipd/vrrp/host"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/router"
)

// feed hands every snapshot of the host to all who act on it: addresses first
// put right, then the routers, then the announcer's links.
type feed struct {
	settings *linksysctl.Keeper
	log      *zap.Logger
	indexes  map[string]int // of the last snapshot
	vmacs    *vmac.Manager
	manager  *host.Manager
	router   *router.Router
	engine   *engine.Engine
	places   *whereabouts                        // nil: nothing depends on addresses of this host
	vips     atomic.Pointer[map[netip.Addr]bool] // virtual addresses of others than owners: never a source address
	last     atomic.Pointer[host.State]
	parents  atomic.Pointer[map[string]string] // of the wanted links with a virtual MAC
	order    sync.Mutex                        // held while the router is told: the newest snapshot must come last
}

// Snapshot is called by the watcher, and after a change of links of our own. One that is older than the last is of no
// more use.
func (f *feed) Snapshot(s host.State) {
	f.order.Lock()
	defer f.order.Unlock()
	if last := f.last.Load(); last != nil && s.At.Before(last.At) {
		return
	}
	f.vmacs.State(s)
	f.manager.State(s)
	runtime.Gosched() // an address that somebody deleted is put back first
	f.renew(s)
	f.engine.Links(f.garpLinks(s))
	f.last.Store(&s)
	f.router.HostState(f.routerLinks(s))
	f.places.State(&s)
}

// tell hands a snapshot to the router alone.
func (f *feed) tell(s host.State) {
	f.order.Lock()
	defer f.order.Unlock()
	f.last.Store(&s)
	f.router.HostState(f.routerLinks(s))
}

// renew makes kernel settings on interfaces that are new.
func (f *feed) renew(s host.State) {
	now := indexes(s)
	if maps.Equal(now, f.indexes) {
		return
	}
	f.indexes = now
	if err := f.settings.Links(now); err != nil {
		f.log.Error("promote_secondaries could not be set everywhere", zap.NamedError("err", err))
	}
}

// SetVIPs takes the virtual addresses of a new configuration and judges the
// last snapshot again with them.
func (f *feed) SetVIPs(sets []host.Set) {
	vips := map[netip.Addr]bool{}
	for _, s := range sets {
		if s.Owner || s.Static {
			continue
		}
		for _, a := range s.Addresses {
			vips[a.Prefix.Addr()] = true
		}
	}
	f.order.Lock()
	defer f.order.Unlock()
	f.vips.Store(&vips)
	if s := f.last.Load(); s != nil {
		f.router.HostState(f.routerLinks(*s))
	}
}

// Again tells the router of the last snapshot again: what is known of links with a virtual MAC has changed.
func (f *feed) Again() {
	f.order.Lock()
	defer f.order.Unlock()
	if s := f.last.Load(); s != nil {
		f.router.HostState(f.routerLinks(*s))
	}
}

// State is the last snapshot, nil before the first.
func (f *feed) State() *host.State { return f.last.Load() }

func (f *feed) virtual(a netip.Addr) bool { return (*f.vips.Load())[a] }

func (f *feed) routerLinks(s host.State) map[string]router.Link {
	out := make(map[string]router.Link, len(s.Links))
	for name, l := range s.Links {
		r := router.Link{
			Index: l.Index, Up: l.Up, Carrier: l.Running, MTU: l.MTU,
			Source4: l.Source4(f.virtual), Source6: l.Source6(f.virtual),
			Addrs: make([]netip.Addr, len(l.Addrs)),
		}
		r.Tentative6, r.Duplicate6 = l.Tentative6(f.virtual)
		for i := range l.Addrs {
			a := &l.Addrs[i]
			r.Addrs[i] = a.Prefix.Addr()
			if !a.Prefix.IsSingleIP() {
				r.Nets = append(r.Nets, a.Prefix.Masked())
			}
			if a.Tentative {
				if r.Unready == nil {
					r.Unready = map[netip.Addr]bool{}
				}
				r.Unready[a.Prefix.Addr()] = a.DADFailed()
			}
		}
		out[name] = r
	}
	f.vmacLinks(out)
	return out
}

func (f *feed) garpLinks(s host.State) []garp.Link {
	out := make([]garp.Link, 0, len(s.Links))
	for name, l := range s.Links {
		out = append(out, garp.Link{
			Name: name, Index: l.Index, MAC: l.MAC, Up: l.Up && l.Running, Router: l.Forwarding6,
			Base: base(s, l),
			ARP:  !l.Loopback && !l.NoARP && l.MAC != [6]byte{},
			VMAC: virtualMAC(l.MAC) || f.vmac(name),
		})
	}
	return out
}

// virtualMAC reports whether an address is that of a virtual router (RFC 9568 §7.3).
func virtualMAC(mac garp.MAC) bool {
	return [4]byte(mac[:4]) == [4]byte{0, 0, 0x5e, 0} && (mac[4] == 1 || mac[4] == 2)
}
