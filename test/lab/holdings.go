package lab

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Holdings is the record of when which director's kernel had which address. It
// is written by the kernel's own messages: it misses nothing, however short, and
// costs nothing while nothing changes. OwnerLog samples instead.
type Holdings struct {
	mu      sync.Mutex
	held    map[holding]map[int]bool // by interface
	changes []change
	err     error
	stop    chan struct{}
	readers sync.WaitGroup
	once    sync.Once
}

// holding is one address at one director.
type holding struct {
	director string
	address  netip.Addr
}

// change is one director that got or lost an address.
type change struct {
	at   time.Time
	what holding
	has  bool
}

// Holdings starts to record all addresses of all directors.
func (l *Lab) Holdings() *Holdings {
	l.t.Helper()
	h := &Holdings{held: map[holding]map[int]bool{}, stop: make(chan struct{})}
	for _, n := range l.nodes {
		if !strings.HasPrefix(n.Name, "d") {
			continue
		}
		updates := make(chan netlink.AddrUpdate, 64)
		ns := netns.NsHandle(n.file.Fd())
		err := netlink.AddrSubscribeWithOptions(updates, h.stop, netlink.AddrSubscribeOptions{
			Namespace: &ns, ListExisting: true, ReceiveBufferSize: 4 << 20, ReceiveBufferForceSize: true,
			ErrorCallback: func(err error) { h.fail(n.Name, err) },
		})
		if err != nil {
			l.t.Fatalf("lab: %s: asking the kernel for changes of addresses: %v", n.Name, err)
		}
		h.readers.Go(func() {
			for u := range updates {
				h.take(n.Name, u)
			}
		})
	}
	l.atEnd(h.Close)
	return h
}

func (h *Holdings) fail(director string, err error) {
	select {
	case <-h.stop: // closing the socket ends the reading with an error
		return
	default:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = fmt.Errorf("%s: changes of addresses: %w", director, err)
}

func (h *Holdings) take(director string, u netlink.AddrUpdate) {
	a, ok := netip.AddrFromSlice(u.LinkAddress.IP)
	if !ok {
		return
	}
	what := holding{director, a.Unmap()}
	h.mu.Lock()
	defer h.mu.Unlock()
	had := len(h.held[what]) > 0
	if h.held[what] == nil {
		h.held[what] = map[int]bool{}
	}
	if u.NewAddr {
		h.held[what][u.LinkIndex] = true
	} else {
		delete(h.held[what], u.LinkIndex)
	}
	if has := len(h.held[what]) > 0; has != had {
		h.changes = append(h.changes, change{time.Now(), what, has})
	}
}

// Close ends the recording; what was recorded stays.
func (h *Holdings) Close() {
	h.once.Do(func() { close(h.stop) })
	h.readers.Wait()
}

// Err is the last error of the recording, nil when nothing was missed.
func (h *Holdings) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// Now names the directors that have the address, in order.
func (h *Holdings) Now(a netip.Addr) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for what, on := range h.held {
		if what.address == a && len(on) > 0 {
			names = append(names, what.director)
		}
	}
	slices.Sort(names)
	return names
}

// Between lists who had the address from one time to another, without gaps.
func (h *Holdings) Between(a netip.Addr, from, to time.Time) []Ownership {
	h.mu.Lock()
	defer h.mu.Unlock()
	var owners []string
	list := []Ownership{{From: from, To: to}}
	for _, c := range h.changes {
		if c.what.address != a || !c.at.Before(to) {
			continue
		}
		if owners = slices.Clone(owners); c.has {
			owners = append(owners, c.what.director)
		} else {
			owners = slices.DeleteFunc(owners, func(d string) bool { return d == c.what.director })
		}
		slices.Sort(owners)
		last := &list[len(list)-1]
		if !c.at.After(from) {
			last.Owners = owners
			continue
		}
		last.To = c.at
		list = append(list, Ownership{From: c.at, To: to, Owners: owners})
	}
	return list
}
