package router

import (
	"context"
	"net/netip"
	"slices"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

type openPort struct {
	port   *socket.Port
	cancel context.CancelFunc
	done   chan error
}

// keyOf returns the key of the socket that an endpoint sends by.
func keyOf(e Endpoint) socket.Key {
	if e.Local.IsValid() {
		return e.Unicast()
	}
	return e.Multicast()
}

// Sync implements Sender.
func (d *node) Sync(endpoints []Endpoint) map[string]error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncs++
	vrids, watched := map[socket.Key][]uint8{}, map[socket.Key][]uint8{}
	patched, keys := map[socket.Key]map[socket.Party][]netip.Addr{}, map[socket.Key]map[socket.Party]packet.Keys{}
	clear(d.where)
	for _, e := range endpoints {
		k := keyOf(e)
		vrids[k] = append(vrids[k], e.VRID)
		if e.Local.IsValid() && e.Interface != "" {
			m := e.Multicast()
			vrids[m], watched[m] = append(vrids[m], 0), append(watched[m], e.VRID)
		}
		if patched[k] == nil {
			patched[k], keys[k] = map[socket.Party][]netip.Addr{}, map[socket.Party]packet.Keys{}
		}
		for _, peer := range append(slices.Clone(e.Peers), netip.Addr{}) {
			who := socket.Party{VRID: e.VRID, Source: peer}
			if e.PatchedToo {
				patched[k][who] = e.Peers
			}
			if _, taken := keys[k][who]; !taken {
				keys[k][who] = e.Keys
			}
		}
		d.where[e.Instance] = e
	}
	for k, p := range d.ports {
		if _, ok := vrids[k]; !ok {
			p.close()
			delete(d.ports, k)
		}
	}
	for k := range vrids {
		if d.ports[k] == nil {
			d.ports[k] = d.open(k)
		}
		d.ports[k].port.SetVRIDs(vrids[k])
		d.ports[k].port.SetWatched(watched[k])
		d.ports[k].port.SetPatched(patched[k])
		d.ports[k].port.SetKeys(keys[k])
	}
	return d.syncErr
}

func (d *node) open(k socket.Key) *openPort {
	ctx, cancel := context.WithCancel(context.Background())
	p := &openPort{
		port:   d.net.lan.Open(d.name, k, func(socket.Key, netip.Addr, packet.DropReason) {}),
		cancel: cancel, done: make(chan error, 1),
	}
	go func() {
		p.done <- p.port.Serve(ctx, func(r *socket.Received) {
			d.mu.Lock()
			thawed := d.thawed
			d.mu.Unlock()
			select {
			case <-thawed:
			case <-ctx.Done():
			}
			d.router.Deliver(r)
		})
	}()
	return p
}

func (p *openPort) close() {
	p.cancel()
	<-p.done
	p.port.Close()
}

type (
	addressPort  node
	announcePort node
	observePort  node
)

func (p *addressPort) Want(instance string, present bool) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted[instance] = present
	d.record("%s want %v", instance, present)
}

func (p *announcePort) Announce(instance string, b vrrp.Burst) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record("%s announce %v", instance, b)
}

func (p *announcePort) Stop(instance string) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record("%s quiet", instance)
}

func (p *announcePort) Source(instance, iface string, addr netip.Addr) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record("%s source %v on %s", instance, addr, iface)
}

func (p *observePort) Transition(e TransitionEvent) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Group != "" {
		d.record("group %s %v -> %v: %s", e.Group, e.From, e.To, e.Reason)
		return
	}
	d.record("%s %v -> %v: %s", e.Instance, e.From, e.To, e.Reason)
}

func (p *observePort) Priority(e PriorityEvent) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.priorities = append(d.priorities, e)
}

func (p *observePort) Dropped(x Drop) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drops = append(d.drops, x)
}

func (p *observePort) Note(x Note) {
	d := (*node)(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, x)
}
