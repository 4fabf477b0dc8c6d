package daemon

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

const (
	// claimEvery is how often a MASTER asks the network who else has its addresses, and
	// claimWindow how long it waits for answers.
	claimEvery  = 10 * time.Second
	claimWindow = time.Second
	// claimBatch is how many addresses of an interface it asks for at once, unless they
	// are so many that claimRounds such questions would not reach the last.
	claimBatch  = 64
	claimRounds = 6
	// claimRare: on a link with a virtual MAC it asks at every sixth time only, and not
	// before that after a takeover. A director that died with its addresses answers with
	// the very same MAC address, and draws switches to itself until our next advert.
	claimRare = 6
)

// claims finds machines that answer for virtual addresses while this director has them:
// a real server of LVS-DR without arp_ignore, a director whose daemon died and left
// them, a host that somebody gave one of them. Part of the clients then reach it.
type claims struct {
	router  claimRouter
	manager interface{ Status() []host.InstanceStatus }
	host    func() *host.State
	hear    func(ctx context.Context, index int, mac [6]byte, addrs []netip.Addr) ([]socket.Claim, error)
	log     *zap.Logger
	masterSignal

	times  int            // since somebody became MASTER
	rounds map[string]int // of questions, by interface

	mu   sync.Mutex
	seen map[claimed]bool // when they were asked for last
}

// claimant is a MAC address that answers for addresses of an instance on one of our
// interfaces.
type claimant struct{ instance, dev, mac string }

// claimed is one of these addresses.
type claimed struct {
	claimant
	address netip.Addr
}

// claimRouter is what claims ask of the router, and tell it.
type claimRouter interface {
	Status() []router.InstanceStatus
	Claimed(instance string, addrs []netip.Addr, iface, mac string)
}

func newClaims(r claimRouter, m interface{ Status() []host.InstanceStatus }, host func() *host.State, log *zap.Logger) *claims {
	return &claims{
		router: r, manager: m, host: host, hear: socket.HearClaims, log: log, masterSignal: newMasterSignal(),
		rounds: map[string]int{}, seen: map[claimed]bool{},
	}
}

// Run asks now and then until ctx ends. After a takeover the one before has a moment to
// let the addresses go.
func (c *claims) Run(ctx context.Context) error {
	timer := time.NewTimer(claimEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.masterSignal:
			c.times = 0
			timer.Reset(claimWindow)
			continue
		case <-timer.C:
		}
		if c.look(ctx) {
			timer.Reset(claimEvery)
		} // else Master tells when it is needed again
	}
}

// look asks once on every interface that has virtual IPv4 addresses of a MASTER, and
// reports whether an instance is one. An IPv6 address must not be asked for like that:
// whoever has it, too, would answer to all (RFC 4861 §7.2.4) and draw the neighbours to
// itself.
func (c *claims) look(ctx context.Context) bool {
	owners, masters := c.owners()
	c.forget(func(k claimed) bool { return owners[k.dev][k.address] != k.instance })
	state := c.host()
	if state == nil || !masters {
		return masters
	}
	ours := map[[6]byte]bool{}
	for _, l := range state.Links {
		ours[l.MAC] = true
	}
	rare := c.times > 0 && c.times%claimRare == 0
	c.times++
	var all sync.WaitGroup
	for dev, of := range owners {
		l := state.Link(dev)
		if l == nil || l.Loopback || l.NoARP || !l.Running || l.MAC == ([6]byte{}) {
			continue
		}
		if l.Kind == "macvlan" && !rare {
			continue
		}
		addrs := c.batch(dev, of)
		all.Go(func() {
			heard := map[claimant][]netip.Addr{}
			for _, h := range c.ask(ctx, l, addrs) {
				if len(h.MAC) == 6 && !ours[[6]byte(h.MAC)] {
					k := claimant{of[h.Address], dev, h.MAC.String()}
					heard[k] = append(heard[k], h.Address)
				}
			}
			c.tell(heard)
		})
	}
	all.Wait()
	return true
}

// ask asks for addresses on a link; what was known of them counts no more.
func (c *claims) ask(ctx context.Context, l *host.Link, addrs []netip.Addr) []socket.Claim {
	ctx, cancel := context.WithTimeout(ctx, claimWindow)
	defer cancel()
	var heard []socket.Claim
	err := guard(func() (err error) {
		heard, err = c.hear(ctx, l.Index, l.MAC, addrs)
		return err
	})
	if err != nil {
		c.log.Debug("cannot ask who else has the virtual addresses", zap.String("iface", l.Name), zap.NamedError("err", err))
	}
	c.forget(func(k claimed) bool { return k.dev == l.Name && slices.Contains(addrs, k.address) })
	return heard
}

// owners are the IPv4 addresses that instances hold as MASTER, by interface; masters
// tells whether there is any.
func (c *claims) owners() (owners map[string]map[netip.Addr]string, masters bool) {
	master := map[string]bool{}
	for _, r := range c.router.Status() {
		if r.Status.State == vrrp.Master {
			master[r.Name] = true
		}
	}
	owners = map[string]map[netip.Addr]string{}
	if len(master) == 0 {
		return owners, false
	}
	for _, i := range c.manager.Status() {
		for _, a := range i.Addresses {
			if !master[i.Instance] || !a.Present || !a.Address.Prefix.Addr().Is4() {
				continue
			}
			if owners[a.Dev] == nil {
				owners[a.Dev] = map[netip.Addr]string{}
			}
			owners[a.Dev][a.Address.Prefix.Addr()] = i.Instance
		}
	}
	return owners, true
}

// batch is which of the addresses are asked for this time.
func (c *claims) batch(dev string, owners map[netip.Addr]string) []netip.Addr {
	var list []netip.Addr
	for a := range owners {
		list = append(list, a)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	n := min(socket.MaxClaims, max(claimBatch, (len(list)+claimRounds-1)/claimRounds))
	if len(list) <= n {
		return list
	}
	from := c.rounds[dev] * n % len(list)
	c.rounds[dev]++
	return slices.Concat(list[from:], list[:from])[:n]
}

// tell says what was heard.
func (c *claims) tell(heard map[claimant][]netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, addrs := range heard {
		for _, a := range addrs {
			c.seen[claimed{k, a}] = true
		}
		c.router.Claimed(k.instance, addrs, k.dev, k.mac)
	}
}

// forget takes out what was seen.
func (c *claims) forget(which func(claimed) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.seen, func(k claimed, _ bool) bool { return which(k) })
}

// Alarms names the machines that answer for addresses of an instance, too.
func (c *claims) Alarms(instance string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := map[claimant][]netip.Addr{}
	for k := range c.seen {
		if k.instance == instance {
			of[k.claimant] = append(of[k.claimant], k.address)
		}
	}
	var out []string
	for k, addrs := range of {
		slices.SortFunc(addrs, netip.Addr.Compare)
		out = append(out, fmt.Sprintf("%s: the machine with the MAC address %s on %s answers for %s, too", instance, k.mac, k.dev, router.Several(addrs)))
	}
	slices.Sort(out)
	return out
}
