package router

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/socket"
)

var (
	_ Waiter = (*socket.Poller)(nil)
	_ Waiter = (*timerWaiter)(nil)
)

var vip = netip.MustParseAddr("10.9.0.100")

// entry is one thing a node did.
type entry struct {
	at   time.Duration // since the start of the test
	text string
}

// node is one director: a router, the LAN ports it opened, and a record of what
// it did.
type node struct {
	t      *testing.T
	net    *network
	name   string
	router *Router
	cancel context.CancelFunc
	done   chan error

	mu      sync.Mutex
	links   map[string]Link
	ports   map[socket.Key]*openPort
	where   map[string]Endpoint // by instance
	syncs   int
	syncErr map[string]error
	log     []entry
	wanted  map[string]bool
	drops   []Drop
	notes   []Note
	listed  int   // addresses in the last advert
	sendErr error // of every advert

	priorities []PriorityEvent
	cut        map[string]bool // interfaces from which nothing gets out
	unplugged  bool            // the interface is gone, and HostState does not say so yet
	thawed     chan struct{}   // closed while the readers run
}

// network is a LAN with nodes, all in one bubble.
type network struct {
	t     *testing.T
	lan   *socket.LAN
	start time.Time
	nodes map[string]*node

	waiter Waiter // of the nodes booted from now on; nil: the usual one
}

// inBubble runs a test with a LAN. Everything must have ended when f returns.
func inBubble(t *testing.T, f func(t *testing.T, n *network)) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, lan: socket.NewLAN(1), start: time.Now(), nodes: map[string]*node{}}
		defer func() {
			for _, name := range slices.Sorted(maps.Keys(n.nodes)) {
				n.nodes[name].kill()
			}
		}()
		f(t, n)
	})
}

// config is the usual instance: version 3, 1 s, VRID 51 on eth0.
func config(priority uint8, change ...func(*Instance)) Instance {
	in := Instance{
		Config: vrrp.Config{
			Name: "VI_1", Interface: "eth0", VRID: 51, Version: 3, Priority: priority, AdvertInterval: time.Second,
			DownTimerAdverts: 3, Addresses: []netip.Addr{vip}, Form: packet.FormPseudo,
		},
		Group: socket.Group4,
	}
	for _, c := range change {
		c(&in)
	}
	return in
}

// link is an interface in order with the given addresses; the first is primary.
func link(index int, texts ...string) Link {
	l := Link{Index: index, Up: true, Carrier: true}
	for _, text := range texts {
		a := netip.MustParseAddr(text)
		l.Addrs = append(l.Addrs, a)
		if a.Is4() && !l.Source4.IsValid() {
			l.Source4 = a
		}
		if a.Is6() && !l.Source6.IsValid() {
			l.Source6 = a
		}
	}
	return l
}

// add starts a node with eth0 in order.
func (n *network) add(name, addr string, instances ...Instance) *node {
	d := n.boot(name, instances...)
	d.setLinks(map[string]Link{"eth0": link(2, addr)})
	return d
}

// boot starts a node that knows nothing of its links yet. A node of that name
// must have been killed before.
func (n *network) boot(name string, instances ...Instance) *node {
	ctx, cancel := context.WithCancel(n.t.Context())
	d := &node{
		t: n.t, net: n, name: name, cancel: cancel, done: make(chan error, 1),
		ports: map[socket.Key]*openPort{}, where: map[string]Endpoint{}, wanted: map[string]bool{}, cut: map[string]bool{},
		thawed: make(chan struct{}),
	}
	close(d.thawed)
	d.router = New(Ports{Sender: d, Addresses: (*addressPort)(d), Announcer: (*announcePort)(d), Observer: (*observePort)(d), Waiter: n.waiter})
	n.nodes[name] = d
	go func() { d.done <- d.router.Run(ctx) }()
	d.apply(instances...)
	return d
}

func (d *node) apply(instances ...Instance) {
	d.t.Helper()
	if err := d.router.Apply(d.t.Context(), instances); err != nil {
		d.t.Fatal(err)
	}
}

// kill ends the node's router as a stop does.
func (d *node) kill() {
	d.cancel()
	if err := <-d.done; err != nil {
		d.t.Errorf("Run: %v", err)
	}
	for _, p := range d.ports {
		p.close()
	}
	delete(d.net.nodes, d.name)
}

// crash ends the node without a word to the others.
func (d *node) crash() {
	d.net.lan.SetLink(d.name, false)
	d.kill()
}

func (d *node) setLinks(links map[string]Link) {
	d.mu.Lock()
	d.links = links
	d.mu.Unlock()
	d.router.HostState(maps.Clone(links))
	synctest.Wait()
}

// freeze stops the router and its readers for a time, as SIGSTOP does. The
// readers go on a little later than the router.
func (d *node) freeze(dur, readersLater time.Duration) {
	thawed := make(chan struct{})
	d.mu.Lock()
	d.thawed = thawed
	d.mu.Unlock()
	d.router.post(func() { time.Sleep(dur) })
	time.AfterFunc(dur+readersLater, func() { close(thawed) })
}

func (d *node) record(format string, args ...any) {
	d.log = append(d.log, entry{time.Since(d.net.start), fmt.Sprintf(format, args...)})
}

// SendAdvert implements Sender.
func (d *node) SendAdvert(instance string, src netip.Addr, a *packet.Advert) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.where[instance]
	if !ok {
		return fmt.Errorf("no socket for %s", instance)
	}
	to, ttl := []netip.Addr{w.Group}, uint8(packet.TTL)
	if w.Local.IsValid() {
		to, ttl = w.Peers, w.TTL
	}
	d.record("%s advert %d", instance, a.Priority)
	d.listed = len(a.Addrs)
	if d.sendErr != nil {
		return d.sendErr
	}
	if d.cut[w.Interface] {
		return nil
	}
	for i, dst := range to {
		b, err := []byte(nil), error(nil)
		if a.Signed {
			b, err = a.AppendSigned(nil, src, dst, packet.NewAuthenticator(w.Keys))
		} else {
			b, err = a.AppendTo(nil, src, dst)
		}
		if err == nil {
			err = d.ports[keyOf(w)].port.SendCopy(src, dst, ttl, i, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Listening implements Sender.
func (d *node) Listening(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unplugged {
		return socket.ErrInterfaceGone
	}
	return nil
}

func (d *node) setUnplugged(on bool) { d.mu.Lock(); defer d.mu.Unlock(); d.unplugged = on }

// run lets time pass.
func (n *network) run(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (n *network) now() time.Duration { return time.Since(n.start) }

// take returns what the node did since the last call.
func (d *node) take() []entry {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.log
	d.log = nil
	return out
}

// times returns when the node did something whose text begins with prefix.
func times(log []entry, prefix string) []time.Duration {
	var out []time.Duration
	for _, e := range log {
		if strings.HasPrefix(e.text, prefix) {
			out = append(out, e.at)
		}
	}
	return out
}

// text is a log for comparison and for messages.
func text(log []entry) string {
	var b strings.Builder
	for _, e := range log {
		fmt.Fprintf(&b, "%v %s\n", e.at, e.text)
	}
	return b.String()
}

func (d *node) status(instance string) InstanceStatus {
	d.t.Helper()
	for _, s := range d.router.Status() {
		if s.Name == instance {
			return s
		}
	}
	d.t.Fatalf("%s has no instance %s", d.name, instance)
	return InstanceStatus{}
}

func (d *node) state() vrrp.State {
	d.t.Helper()
	return d.status("VI_1").Status.State
}

// wantState checks state and reason of VI_1; reason may be a part of it.
func (d *node) wantState(state vrrp.State, reason string) {
	d.t.Helper()
	got := d.status("VI_1").Status
	if got.State != state || !strings.Contains(got.Reason, reason) {
		d.t.Errorf("%v %s: is %v (%s), want %v (%s)", d.net.now(), d.name, got.State, got.Reason, state, reason)
	}
}

// owners returns the nodes that want VI_1's addresses, and checks that it is the
// MASTERs that do.
func (n *network) owners() []string {
	n.t.Helper()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(n.nodes)) {
		d := n.nodes[name]
		d.mu.Lock()
		wanted := d.wanted["VI_1"]
		d.mu.Unlock()
		if wanted != (d.state() == vrrp.Master) {
			n.t.Errorf("%v %s: addresses wanted %v in %v", n.now(), name, wanted, d.state())
		}
		if wanted {
			out = append(out, name)
		}
	}
	return out
}

func (n *network) wantOwners(names ...string) {
	n.t.Helper()
	if got := n.owners(); !slices.Equal(got, names) {
		n.t.Errorf("%v owners are %v, want %v", n.now(), got, names)
	}
}
