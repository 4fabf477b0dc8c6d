package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
)

// holds asks the kernel whether the node has the address on an interface that
// is neither lo nor a dummy.
func (n *Node) holds(addr netip.Addr) (bool, error) {
	family := netlink.FAMILY_V4
	if addr.Is6() {
		family = netlink.FAMILY_V6
	}
	list, err := n.handle.AddrList(nil, family)
	// While a thousand addresses come or go every listing may be interrupted.
	for tries := 0; errors.Is(err, netlink.ErrDumpInterrupted) && tries < 200; tries++ {
		time.Sleep(time.Millisecond)
		list, err = n.handle.AddrList(nil, family)
	}
	if err != nil {
		return false, err
	}
	for _, a := range list {
		got, ok := netip.AddrFromSlice(a.IP)
		if !ok || got.Unmap() != addr {
			continue
		}
		link, err := n.handle.LinkByIndex(a.LinkIndex)
		if err != nil {
			continue // deleted meanwhile
		}
		if link.Attrs().Name != "lo" && link.Type() != "dummy" {
			return true, nil
		}
	}
	return false, nil
}

// Owners names the directors whose kernel has the VIP now.
func (l *Lab) Owners(vip netip.Addr) []string {
	l.t.Helper()
	names, err := l.owners(vip)
	if err != nil {
		l.t.Fatalf("lab: %v", err)
	}
	return names
}

func (l *Lab) owners(vip netip.Addr) ([]string, error) {
	var names []string
	for _, n := range l.nodes {
		if !strings.HasPrefix(n.Name, "d") {
			continue
		}
		has, err := n.holds(vip)
		if err != nil {
			return nil, fmt.Errorf("%s: listing addresses: %w", n.Name, err)
		}
		if has {
			names = append(names, n.Name)
		}
	}
	return names, nil
}

// WaitOwner waits at most limit until the named directors, and no others, have
// the VIP in their kernel.
func (l *Lab) WaitOwner(vip netip.Addr, limit time.Duration, want ...string) {
	l.t.Helper()
	slices.Sort(want)
	deadline := time.Now().Add(limit)
	for {
		have := l.Owners(vip)
		slices.Sort(have)
		if slices.Equal(have, want) {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("lab: after %v %v is owned by %v, not by %v", limit, vip, have, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Never fails the test when cond becomes true within the time.
func (l *Lab) Never(limit time.Duration, what string, cond func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		asked := time.Now()
		if cond() {
			l.t.Fatalf("lab: %s", what)
		}
		pause(asked)
	}
}

// Eventually fails the test when cond has not become true within the time.
func (l *Lab) Eventually(limit time.Duration, what string, cond func() bool) {
	l.t.Helper()
	deadline := time.Now().Add(limit)
	for asked := time.Now(); !cond(); asked = time.Now() {
		if time.Now().After(deadline) {
			l.t.Fatalf("lab: not within %v: %s", limit, what)
		}
		pause(asked)
	}
}

// pause is what a loop that asks again and again does in between: the longer the
// question took, a program that was run perhaps, the longer it waits, so that the
// asking does not take the processor from what is waited for.
func pause(asked time.Time) {
	time.Sleep(max(5*time.Millisecond, min(2*time.Since(asked), 200*time.Millisecond)))
}

// Ownership is a stretch of time during which the same directors had the VIP, as far as
// samples tell: From the end of the first to the end of the next one that differs. It was
// so for certain until Last, the beginning of the last one.
type Ownership struct {
	From, Last, To time.Time
	Owners         []string
}

// OwnerLog samples who has a VIP.
type OwnerLog struct {
	mu      sync.Mutex
	periods []Ownership
	err     error
	stop    chan struct{}
	done    chan struct{}
}

// WatchOwners samples the VIP's owners in the kernel until Stop.
func (l *Lab) WatchOwners(vip netip.Addr, every time.Duration) *OwnerLog {
	o := &OwnerLog{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			began := time.Now()
			names, err := l.owners(vip)
			o.sample(began, time.Now(), names, err)
			select {
			case <-o.stop:
				return
			case <-tick.C:
			}
		}
	}()
	l.atEnd(func() { o.Stop() })
	return o
}

func (o *OwnerLog) sample(began, now time.Time, names []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.err = err
		return
	}
	if n := len(o.periods); n > 0 {
		o.periods[n-1].To = now
		if slices.Equal(o.periods[n-1].Owners, names) {
			o.periods[n-1].Last = began
			return
		}
	}
	o.periods = append(o.periods, Ownership{From: now, Last: now, To: now, Owners: names})
}

// Stop ends the sampling and returns all periods in order. It may be called
// more than once.
func (o *OwnerLog) Stop() []Ownership {
	o.mu.Lock()
	select {
	case <-o.stop:
	default:
		close(o.stop)
	}
	o.mu.Unlock()
	<-o.done
	return o.Periods()
}

// Periods returns what was sampled so far.
func (o *OwnerLog) Periods() []Ownership {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.periods)
}

// Err is the last error of sampling, nil when every sample was good.
func (o *OwnerLog) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Longest returns the longest time without a break that n directors had the
// VIP: 0 for an outage, 2 for two masters.
func (o *OwnerLog) Longest(n int) time.Duration {
	var longest time.Duration
	for _, p := range o.Periods() {
		if len(p.Owners) == n {
			longest = max(longest, p.To.Sub(p.From))
		}
	}
	return longest
}

// Surely is Longest as far as it is certain: who samples may have waited for a processor
// meanwhile.
func (o *OwnerLog) Surely(n int) time.Duration {
	var longest time.Duration
	for _, p := range o.Periods() {
		if len(p.Owners) == n {
			longest = max(longest, p.Last.Sub(p.From))
		}
	}
	return longest
}
