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

// sender owns the VRRP sockets: one an interface, family and group, and one an own
// address that speaks unicast, shared by the instances on it. Its router.Sender
// methods are called from the router's goroutine only and never wait: opening and
// closing a socket takes the kernel's lock of all interfaces, which others may hold
// for long.
type sender struct {
	ctx     context.Context // ends the use of the sockets
	poller  *socket.Poller  // reads them
	deliver func(*socket.Received)
	changed func() // a socket was opened, or cannot be
	socket  func(socket.Key, socket.OnDrop) (*socket.Conn, error)
	quiet   func(instance string, priority uint8) // takes what would be sent; nil: it is sent
	over    atomic.Bool                           // nothing is sent or heard any more: their interfaces may go
	log     *zap.Logger
	drops   dropCounters

	links      map[socket.Key]*link
	byInstance map[string]way
	buf        []byte
	wg         sync.WaitGroup
}

// way is how the adverts of an instance go out.
type way struct {
	link *link
	to   []netip.Addr // the group, or the peers
	ttl  uint8
	auth *packet.Authenticator // nil: nothing is signed
}

// link is one socket with its goroutine, which opens it, has it read, and closes it.
type link struct {
	key  socket.Key
	stop context.CancelFunc
	conn atomic.Pointer[socket.Conn] // nil while it is being opened

	mu    sync.Mutex // guards all following fields
	wants wants
	state error // router.ErrOpening at first, then how the last opening went
}

func newSender(ctx context.Context, poller *socket.Poller, deliver func(*socket.Received), changed func(), log *zap.Logger) *sender {
	return &sender{
		ctx: ctx, poller: poller, deliver: deliver, changed: changed, socket: socket.Open, log: log, drops: dropCounters{log: log},
		links: map[socket.Key]*link{}, byInstance: map[string]way{}, buf: make([]byte, 0, 4096),
	}
}

// SendAdvert implements router.Sender. A peer that cannot be reached does not keep
// the others from being told.
func (s *sender) SendAdvert(instance string, src netip.Addr, a *packet.Advert) error {
	if s.quiet != nil {
		s.quiet(instance, a.Priority)
		return nil
	}
	w, ok := s.byInstance[instance]
	if !ok {
		return fmt.Errorf("sending an advert of %s: it has no socket", instance)
	}
	c := w.link.conn.Load()
	if c == nil {
		return fmt.Errorf("sending an advert of %s: the socket %v is being opened", instance, w.link.key)
	}
	var failed error
	for i, dst := range w.to {
		// Each copy has a checksum of its own: the destination is in it.
		b, err := w.append(s.buf[:0], a, src, dst)
		if err == nil {
			s.buf = b[:0]
			err = c.SendCopy(src, dst, w.ttl, i, b)
		}
		if err != nil {
			failed = errors.Join(failed, explainSend(w.link.key.Interface, dst, err))
		}
	}
	return failed
}

// append encodes an advert, signed if it is to be.
func (w *way) append(b []byte, a *packet.Advert, src, dst netip.Addr) ([]byte, error) {
	if a.Signed && w.auth != nil {
		return a.AppendSigned(b, src, dst, w.auth)
	}
	return a.AppendTo(b, src, dst)
}

// explainSend adds the remedy to the errors that have one.
func explainSend(iface string, dst netip.Addr, err error) error {
	if iface != "" {
		iface = " on " + iface
	}
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: a firewall of this director drops it; allow IP protocol %d (vrrp) out%s", err, packet.Protocol, iface)
	case !dst.IsMulticast() && (errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH)):
		return fmt.Errorf("%w: no route leads to this peer; see \"ip route get %v\"", err, dst)
	}
	return err
}

// Sync implements router.Sender.
func (s *sender) Sync(endpoints []router.Endpoint) map[string]error {
	all := wanted(endpoints)
	for k, l := range s.links {
		if _, ok := all[k]; !ok {
			l.stop()
			delete(s.links, k)
		}
	}
	for k, w := range all {
		s.link(k).set(w)
	}
	clear(s.byInstance)
	failed := map[string]error{}
	for _, e := range endpoints {
		w := way{link: s.links[e.Multicast()], to: []netip.Addr{e.Group}, ttl: packet.TTL}
		if e.Local.IsValid() {
			w = way{link: s.links[e.Unicast()], to: e.Peers, ttl: e.TTL}
		}
		if len(e.Keys) > 0 {
			w.auth = packet.NewAuthenticator(e.Keys)
		}
		s.byInstance[e.Instance] = w
		if err := w.link.status(); err != nil {
			failed[e.Instance] = err
		}
	}
	return failed
}

// Listening implements router.Sender.
func (s *sender) Listening(instance string) error {
	w, ok := s.byInstance[instance]
	if !ok {
		return fmt.Errorf("%s has no socket", instance)
	}
	c := w.link.conn.Load()
	if c == nil {
		return router.ErrOpening
	}
	return c.Alive()
}

// link returns the socket of k, which is opened if need be.
func (s *sender) link(k socket.Key) *link {
	l := s.links[k]
	if l == nil {
		ctx, cancel := context.WithCancel(s.ctx)
		l = &link{key: k, stop: cancel, state: router.ErrOpening}
		s.links[k] = l
		s.wg.Go(func() {
			for err := guard(func() error { s.serve(ctx, l); return nil }); err != nil && ctx.Err() == nil; {
				s.log.Error("a VRRP socket met a fault in vipd and is opened again", zap.Stringer("iface", l.key), zap.NamedError("err", err))
				time.Sleep(reopenEvery)
				err = guard(func() error { s.serve(ctx, l); return nil })
			}
		})
	}
	return l
}

// serve opens the socket and has it read until ctx ends; one that fails is opened
// again.
func (s *sender) serve(ctx context.Context, l *link) {
	for {
		c, err := s.open(l)
		if l.setState(err) && ctx.Err() == nil {
			s.changed()
		}
		if err == nil {
			err = c.Watch(ctx)
			s.shut(l, c)
			if s.over.Load() {
				return
			}
			if ctx.Err() == nil {
				s.log.Warn("the VRRP socket failed and is opened again", zap.Stringer("iface", l.key), zap.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reopenEvery):
		}
	}
}

// Over says that nothing is sent or heard any more, and that sockets fail because
// their interfaces are removed. They are not closed here: that takes the kernel's
// lock, which the removal of the addresses needs more.
func (s *sender) Over() { s.over.Store(true) }

// open opens the socket and has it read.
func (s *sender) open(l *link) (*socket.Conn, error) {
	c, err := s.socket(l.key, s.drops.add)
	if err != nil {
		return nil, err
	}
	l.conn.Store(c)
	l.apply()
	if err := s.poller.Add(c, s.deliver); err != nil {
		s.shut(l, c)
		return nil, err
	}
	return c, nil
}

// shut undoes open.
func (s *sender) shut(l *link, c *socket.Conn) {
	s.poller.Remove(c)
	l.conn.Store(nil)
	c.Close()
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

func (l *link) set(w wants) {
	l.mu.Lock()
	l.wants = w
	l.mu.Unlock()
	l.apply()
}

// apply tells the open socket what it is to receive.
func (l *link) apply() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conn.Load(); c != nil {
		c.SetKeys(l.wants.keys)
		c.SetPatched(l.wants.patched)
		c.SetWatched(l.wants.watched)
		c.SetVRIDs(l.wants.vrids)
	}
}

// Wait returns when all sockets were closed after the end of the context.
func (s *sender) Wait() { s.wg.Wait() }

// dropCounters counts what the sockets refuse, by reason, and logs one packet of
// each reason a minute: the table is small and fixed, so a flood of junk costs
// neither memory nor log.
type dropCounters struct {
	log    *zap.Logger
	n      [packet.NumDropReasons]atomic.Int64
	logged [packet.NumDropReasons]atomic.Int64 // time of the last line in Unix nanoseconds; the clock may be set back
}

// dropLogEvery is the least time between two lines about one reason.
const dropLogEvery = time.Minute

func (d *dropCounters) add(k socket.Key, src netip.Addr, reason packet.DropReason) {
	n := d.n[reason].Add(1)
	now, last := time.Now().UnixNano(), d.logged[reason].Load()
	if last != 0 && now >= last && now-last < int64(dropLogEvery) || !d.logged[reason].CompareAndSwap(last, now) {
		return
	}
	line := d.log.Warn
	if usual(reason) {
		line = d.log.Debug
	}
	where := k.Interface
	if where == "" {
		where = k.String() // unicast, by whichever interface
	}
	line(dropText(reason, src), zap.String("iface", where), zap.Int64("count", n))
}

func (d *dropCounters) snapshot(into map[string]int64) {
	for i := range d.n {
		if n := d.n[i].Load(); n > 0 {
			into["packets_dropped_"+packet.DropReason(i).String()] = n
		}
	}
}
