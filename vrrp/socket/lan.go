package socket

import (
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"vipd/vrrp/packet"
)

// LAN is one broadcast domain in memory, for tests. Frames are real bytes: the
// receiver decodes what the sender encoded, with its IPv4 header. Frames take
// no time unless Impair says so. Everything follows from the seed and the
// sends: with the same sends a link loses and delays the same frames in every
// run. It starts no goroutine and works in a testing/synctest bubble, if it is
// made in it.
type LAN struct {
	seed uint64

	mu    sync.Mutex
	ports []*Port
	links map[link]*linkState
	taps  []func(Frame)
}

// link is one direction between two hosts.
type link struct{ from, to string }

type linkState struct {
	Impairment
	cut bool
	rng *rand.Rand
}

// Impairment is what one direction of a link does to frames.
type Impairment struct {
	// Loss and Duplicate are probabilities, 0 to 1.
	Loss, Duplicate float64
	// Delay is added to every frame, and up to Jitter more at random, so that
	// frames may overtake each other.
	Delay, Jitter time.Duration
}

// Frame is one packet on the LAN.
type Frame struct {
	At       time.Time
	From     string // the host, or the name given to Inject
	Src, Dst netip.Addr
	TTL      uint8
	// Packet is the IPv4 packet, or the payload of the IPv6 packet.
	Packet []byte
}

// Message is the VRRP message in the frame, nil if the IPv4 header is bad.
func (f Frame) Message() []byte {
	if !f.Src.Is4() {
		return f.Packet
	}
	ip, _ := packet.ParseIPv4(f.Packet)
	return ip.Payload
}

// NewLAN returns an empty network. The seed decides about loss, duplication
// and jitter.
func NewLAN(seed uint64) *LAN { return &LAN{seed: seed, links: map[link]*linkState{}} }

// Open attaches an interface of host to the network. A host that speaks IPv4
// and IPv6 has a port for each key, as with real sockets.
func (l *LAN) Open(host string, key Key, onDrop OnDrop) *Port {
	p := &Port{lan: l, host: host, up: true, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	p.intake.init(key, onDrop)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ports = append(l.ports, p)
	return p
}

// Impair replaces what happens to frames from one host to another; "" stands
// for every host attached now.
func (l *LAN) Impair(from, to string, i Impairment) {
	l.each(from, to, func(s *linkState) { s.Impairment = i })
}

// Cut stops all frames from one host to another, in this direction only; ""
// stands for every host attached now.
func (l *LAN) Cut(from, to string) { l.each(from, to, func(s *linkState) { s.cut = true }) }

// Heal ends a Cut.
func (l *LAN) Heal(from, to string) { l.each(from, to, func(s *linkState) { s.cut = false }) }

// Partition cuts both directions between the hosts of a and all others.
func (l *LAN) Partition(a ...string) {
	inside := map[string]bool{}
	for _, host := range a {
		inside[host] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, from := range l.ports {
		for _, to := range l.ports {
			if inside[from.host] != inside[to.host] {
				l.link(from.host, to.host).cut = true
			}
		}
	}
}

// HealAll ends every Cut and Partition.
func (l *LAN) HealAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.links {
		s.cut = false
	}
}

// SetLink takes all ports of host down or up again. A port that is down
// refuses to send and loses what arrives.
func (l *LAN) SetLink(host string, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.ports {
		if p.host == host {
			p.up = up
		}
	}
}

// Tap has f called for every frame that is sent, before it is lost or
// delivered. f must not send.
func (l *LAN) Tap(f func(Frame)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taps = append(l.taps, f)
}

// Inject sends a packet as a stranger would: any bytes, any TTL. For IPv4 they
// are the whole packet, for IPv6 its payload.
func (l *LAN) Inject(f Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send(nil, f)
}

// each calls f for the links from one host to another, "" being all.
func (l *LAN) each(from, to string, f func(*linkState)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.hosts(from) {
		for _, b := range l.hosts(to) {
			if a != b {
				f(l.link(a, b))
			}
		}
	}
}

func (l *LAN) hosts(name string) []string {
	if name != "" {
		return []string{name}
	}
	var all []string
	seen := map[string]bool{}
	for _, p := range l.ports {
		if !seen[p.host] {
			seen[p.host] = true
			all = append(all, p.host)
		}
	}
	return all
}

// link returns the state of one direction. Each has a random source of its
// own, so that what a link does depends on its own frames alone.
func (l *LAN) link(from, to string) *linkState {
	s := l.links[link{from, to}]
	if s == nil {
		h := fnv.New64a()
		h.Write([]byte(from + "\x00" + to))
		s = &linkState{rng: rand.New(rand.NewPCG(l.seed, h.Sum64()))}
		l.links[link{from, to}] = s
	}
	return s
}

// send passes a frame to all ports of its group, or of its own destination, but
// the sender's host's. The mutex is held.
func (l *LAN) send(from *Port, f Frame) {
	f.At = time.Now()
	for _, tap := range l.taps {
		tap(f)
	}
	for _, to := range l.ports {
		if to != from && to.host != f.From && (to.key.Group == f.Dst || to.key.Local == f.Dst) {
			l.link(f.From, to.host).carry(f, to)
		}
	}
}

// carry puts a frame into the queue of the receiving port, once, twice or not.
func (s *linkState) carry(f Frame, to *Port) {
	// The same number of draws for each frame: the fate of one does not depend
	// on what the settings were for those before it.
	loss, dup, jitter := s.rng.Float64(), s.rng.Float64(), s.rng.Float64()
	if s.cut || loss < s.Loss {
		return
	}
	due := f.At.Add(s.Delay + time.Duration(jitter*float64(s.Jitter)))
	to.enqueue(due, f)
	if dup < s.Duplicate {
		to.enqueue(due, f)
	}
}
