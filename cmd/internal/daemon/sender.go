package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

// reopenEvery is how long a socket that failed waits before it is opened again.
const reopenEvery = 200 * time.Millisecond

// sender owns the VRRP sockets: one an interface, family and group, shared by
// the instances on it. Its router.Sender methods are called from the router's
// goroutine only and never wait: opening and closing a socket takes the kernel's
// lock of all interfaces, which others may hold for long.
type sender struct {
	ctx     context.Context // ends the read loops
	deliver func(*socket.Received)
	changed func() // a socket was opened, or cannot be
	log     *zap.Logger
	drops   dropCounters

	links      map[socket.Key]*link
	byInstance map[string]*link
	buf        []byte
	wg         sync.WaitGroup
}

// link is one socket with its goroutine, which opens, reads and closes it.
type link struct {
	key  socket.Key
	stop context.CancelFunc
	conn atomic.Pointer[socket.Conn] // nil while it is being opened

	mu    sync.Mutex // guards all following fields
	vrid  []uint8
	state error // router.ErrOpening at first, then how the last opening went
}

func newSender(ctx context.Context, deliver func(*socket.Received), changed func(), log *zap.Logger) *sender {
	return &sender{
		ctx: ctx, deliver: deliver, changed: changed, log: log, drops: dropCounters{log: log},
		links: map[socket.Key]*link{}, byInstance: map[string]*link{}, buf: make([]byte, 0, 4096),
	}
}

// SendAdvert implements router.Sender.
func (s *sender) SendAdvert(instance string, src netip.Addr, a *packet.Advert) error {
	l := s.byInstance[instance]
	if l == nil {
		return fmt.Errorf("sending an advert of %s: it has no socket", instance)
	}
	c := l.conn.Load()
	if c == nil {
		return fmt.Errorf("sending an advert of %s: the socket on %s is being opened", instance, l.key.Interface)
	}
	b, err := a.AppendTo(s.buf[:0], src, l.key.Group)
	if err != nil {
		return err
	}
	s.buf = b[:0]
	if err := c.Send(src, l.key.Group, b); err != nil {
		return explainSend(l.key.Interface, err)
	}
	return nil
}

// explainSend adds the remedy to the errors that have one.
func explainSend(iface string, err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: a firewall of this director drops it; allow IP protocol %d (vrrp) out on %s", err, packet.Protocol, iface)
	}
	return err
}

// Sync implements router.Sender.
func (s *sender) Sync(endpoints []router.Endpoint) map[string]error {
	wanted := map[socket.Key][]router.Endpoint{}
	for _, e := range endpoints {
		k := socket.Key{Interface: e.Interface, Index: e.Index, IPv6: e.IPv6, Group: e.Group}
		wanted[k] = append(wanted[k], e)
	}
	for k, l := range s.links {
		if _, ok := wanted[k]; !ok {
			l.stop()
			delete(s.links, k)
		}
	}
	clear(s.byInstance)
	var failed map[string]error
	for k, es := range wanted {
		l := s.link(k, es)
		err := l.status()
		for _, e := range es {
			s.byInstance[e.Instance] = l
			if err == nil {
				continue
			}
			if failed == nil {
				failed = map[string]error{}
			}
			failed[e.Instance] = err
		}
	}
	return failed
}

// link returns the socket of k, which is opened if need be, that receives for es.
func (s *sender) link(k socket.Key, es []router.Endpoint) *link {
	vrids := make([]uint8, len(es))
	for i, e := range es {
		vrids[i] = e.VRID
	}
	l := s.links[k]
	if l == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		l = &link{key: k, stop: cancel, state: router.ErrOpening}
		s.links[k] = l
		s.wg.Go(func() { s.serve(ctx, l) })
	}
	l.setVRIDs(vrids)
	return l
}

// serve opens the socket and reads until ctx ends; one that fails is opened again.
func (s *sender) serve(ctx context.Context, l *link) {
	for {
		c, err := socket.Open(l.key, s.drops.add)
		if err == nil {
			l.conn.Store(c)
			l.applyVRIDs()
		}
		if l.setState(err) && ctx.Err() == nil {
			s.changed()
		}
		if err == nil {
			err = guard(func() error { return c.Serve(ctx, s.deliver) })
			l.conn.Store(nil)
			c.Close()
			if ctx.Err() == nil {
				s.log.Warn("the VRRP socket failed and is opened again", zap.String("iface", l.key.Interface), zap.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reopenEvery):
		}
	}
}

// setState notes how an opening went and reports whether that is news.
func (l *link) setState(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := (err == nil) != (l.state == nil) || err != nil && err.Error() != l.state.Error()
	l.state = err
	return news
}

// status is nil for a socket that was opened.
func (l *link) status() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *link) setVRIDs(v []uint8) {
	l.mu.Lock()
	l.vrid = v
	l.mu.Unlock()
	l.applyVRIDs()
}

func (l *link) applyVRIDs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conn.Load(); c != nil {
		c.SetVRIDs(l.vrid)
	}
}

// Wait returns when all read loops have ended after the end of the context.
func (s *sender) Wait() { s.wg.Wait() }

// dropCounters counts what the sockets refuse, by reason, and logs one packet of
// each reason a minute: the table is small and fixed, so a flood of junk costs
// neither memory nor log.
type dropCounters struct {
	log    *zap.Logger
	n      [packet.NumDropReasons]atomic.Int64
	logged [packet.NumDropReasons]atomic.Int64 // time of the last line in Unix nanoseconds
}

// dropLogEvery is the least time between two lines about one reason.
const dropLogEvery = time.Minute

func (d *dropCounters) add(k socket.Key, src netip.Addr, reason packet.DropReason) {
	n := d.n[reason].Add(1)
	now, last := time.Now().UnixNano(), d.logged[reason].Load()
	if last != 0 && now-last < int64(dropLogEvery) || !d.logged[reason].CompareAndSwap(last, now) {
		return
	}
	line := d.log.Warn
	if usual(reason) {
		line = d.log.Debug
	}
	line(dropText(reason, src), zap.String("iface", k.Interface), zap.Int64("count", n))
}

func (d *dropCounters) snapshot(into map[string]int64) {
	for i := range d.n {
		if n := d.n[i].Load(); n > 0 {
			into["packets_dropped_"+packet.DropReason(i).String()] = n
		}
	}
}
