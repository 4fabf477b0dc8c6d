package socket

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// Port is one host's end of a LAN, with the methods of a Conn.
type Port struct {
	intake
	lan  *LAN
	host string

	// Under the LAN's mutex.
	up    bool
	ids   [256]packet.IPv4ID
	queue []queued // by due time, and order of sending where equal

	wake      chan struct{} // the head of the queue has changed
	closed    chan struct{}
	closeOnce sync.Once
}

type queued struct {
	due   time.Time
	frame Frame
}

// Key is what the port was opened for.
func (p *Port) Key() Key { return p.key }

// Send sends a VRRP message to all other ports of the group, as Conn.Send. A
// port whose link is down returns ENETDOWN.
func (p *Port) Send(src, dst netip.Addr, vrrp []byte) error {
	return p.SendCopy(src, dst, packet.TTL, 0, vrrp)
}

// SendCopy is Send with a TTL, as Conn.SendCopy.
func (p *Port) SendCopy(src, dst netip.Addr, ttl uint8, copy int, vrrp []byte) error {
	if !src.IsValid() || src.Is4() == p.key.IPv6 || dst.Is4() == p.key.IPv6 || len(vrrp) < 2 {
		return fmt.Errorf("sending from %v to %v on %v: %w", src, dst, p.key, packet.ErrFamily)
	}
	p.lan.mu.Lock()
	defer p.lan.mu.Unlock()
	select {
	case <-p.closed:
		return fmt.Errorf("sending on %v: %w", p.key, os.ErrClosed)
	default:
	}
	if !p.up {
		return fmt.Errorf("sending from %v to %v on %v: %w", src, dst, p.key, unix.ENETDOWN)
	}
	var bytes []byte
	if !p.key.IPv6 {
		if copy == 0 {
			p.ids[vrrp[1]].Next()
		}
		bytes = packet.AppendIPv4(nil, src, dst, uint16(p.ids[vrrp[1]]), ttl, len(vrrp))
	}
	p.lan.send(p, Frame{From: p.host, Src: src, Dst: dst, TTL: ttl, Packet: append(bytes, vrrp...)})
	return nil
}

// Serve delivers what arrives until ctx ends, and then returns nil; after
// Close it returns an error that wraps os.ErrClosed. Frames due at the same
// instant are delivered in the order in which they were sent.
func (p *Port) Serve(ctx context.Context, deliver func(*Received)) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		f, wait, ok := p.next()
		if ok {
			p.receive(f, deliver)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-p.closed:
			return fmt.Errorf("receiving on %v: %w", p.key, os.ErrClosed)
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// next takes the first frame off the queue if it is due, and says else how
// long to wait. Frames that find the link down are lost.
func (p *Port) next() (f Frame, wait time.Duration, ok bool) {
	p.lan.mu.Lock()
	defer p.lan.mu.Unlock()
	for len(p.queue) > 0 {
		if wait := time.Until(p.queue[0].due); wait > 0 {
			return Frame{}, wait, false
		}
		f, p.queue = p.queue[0].frame, p.queue[1:]
		if p.up {
			return f, 0, true
		}
	}
	return Frame{}, time.Hour, false
}

// enqueue adds a frame. The LAN's mutex is held.
func (p *Port) enqueue(due time.Time, f Frame) {
	i := len(p.queue)
	for i > 0 && p.queue[i-1].due.After(due) {
		i--
	}
	p.queue = append(p.queue, queued{})
	copy(p.queue[i+1:], p.queue[i:])
	p.queue[i] = queued{due, f}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// receive judges a frame as a Conn does.
func (p *Port) receive(f Frame, deliver func(*Received)) {
	if p.key.IPv6 {
		p.accept(f.Src, f.Dst, f.TTL, f.Packet, time.Now(), deliver)
		return
	}
	ip, reason := packet.ParseIPv4(f.Packet)
	if reason != packet.DropNone {
		p.onDrop(p.key, ip.Src, reason)
		return
	}
	p.accept(ip.Src, ip.Dst, ip.TTL, ip.Payload, time.Now(), deliver)
}

// Close detaches the port; a running Serve returns.
func (p *Port) Close() error {
	p.lan.mu.Lock()
	defer p.lan.mu.Unlock()
	p.closeOnce.Do(func() { close(p.closed) })
	for i, other := range p.lan.ports {
		if other == p {
			p.lan.ports = append(p.lan.ports[:i:i], p.lan.ports[i+1:]...)
			break
		}
	}
	return nil
}
