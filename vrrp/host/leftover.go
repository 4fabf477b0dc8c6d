package host

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Leftover is an address that was there when vipd started and matched what vipd has, had or may have.
type Leftover struct {
	Dev     string
	Prefix  netip.Prefix
	Removed bool   // or about to be; the kernel's refusal is in the status
	Reason  string // why it was removed or left
}

// String is a sentence for the log.
func (l Leftover) String() string {
	what := "left"
	if l.Removed {
		what = "removed"
	}
	return fmt.Sprintf("%s %s on %s: %s", what, l.Prefix, l.Dev, l.Reason)
}

// sweep queues the removal of what a predecessor left behind. recorded is its state file.
func (b *book) sweep(now time.Time, s State, recorded map[key]bool) []Leftover {
	b.state(now, s)
	var found []Leftover
	marks := s.marks()
	for dev, l := range s.Links {
		for _, a := range l.Addrs {
			k := key{dev, a.Prefix}
			e := b.entries[k]
			configured := e != nil && len(e.users) > 0 || b.otherwise(a) || b.otherLength(k)
			if e != nil && e.active() != nil { // a static one
				e.ours = e.ours || recorded[k] && (!marks || marked(a.Proto))
				continue
			}
			if !configured && !recorded[k] {
				continue
			}
			f := Leftover{Dev: dev, Prefix: a.Prefix}
			f.Removed, f.Reason = b.leftover(k, a, recorded[k], marks)
			found = append(found, f)
			if !f.Removed {
				continue
			}
			e = b.entry(k)
			e.present, e.ours, e.rec, e.index, e.listed = true, true, a, l.Index, recorded[k]
			b.evaluate(now, e)
		}
	}
	slices.SortFunc(found, func(x, y Leftover) int { return key{x.Dev, x.Prefix}.compare(key{y.Dev, y.Prefix}) })
	b.unlisted = true
	b.evaluateAll(now)
	return found
}

// leftover decides about one address found at start.
func (b *book) leftover(k key, a Addr, recorded, marks bool) (remove bool, reason string) {
	e := b.entries[k]
	configured := e != nil && len(e.users) > 0
	switch {
	case configured && e.owned():
		return false, "it belongs to the owner of the virtual router (priority 255)"
	case recorded && marked(a.Proto):
		return true, "an earlier vipd added it (state file)"
	case recorded && !marks:
		return true, "an earlier vipd listed it in the state file"
	case recorded && !configured:
		return false, "the state file lists it, but somebody else added it since: it lacks the mark proto 112; remove it by hand if it is not wanted"
	case !configured && a.Proto != Proto:
		return false, "it is a configured virtual address, but with another prefix length, and not from vipd: this machine answers for it even when it is not master; remove it by hand, or configure that length if it shall move"
	case !configured:
		return true, "it is a configured virtual address, written with another prefix length or interface, with the mark of vipd"
	case a.Proto == Proto:
		return true, "it is a configured virtual address with the mark of vipd"
	case b.sole(k):
		return false, fmt.Sprintf("it is a configured virtual address but the only one of its family on %s: removing it could cut this machine off; give %s an address of its own, then remove this one by hand", k.dev, k.dev)
	}
	return true, "it is a configured virtual address of an instance that is not master"
}

// otherwise reports whether an address with our mark is a configured virtual one but for its prefix length or
// interface, which were others when it was added. The state file may be lost, as a container's is.
func (b *book) otherwise(a Addr) bool {
	if a.Proto != Proto || !b.vips[a.Prefix.Addr()] {
		return false
	}
	for _, in := range b.order {
		own := in.set.Owner && slices.ContainsFunc(in.set.Addresses, func(x Address) bool { return x.Prefix.Addr() == a.Prefix.Addr() })
		if own {
			return false
		}
	}
	return true
}

// otherLength reports whether an address of k's interface is a configured virtual one of that interface but for its prefix
// length, and of no owner.
func (b *book) otherLength(k key) bool {
	if !b.vips[k.prefix.Addr()] {
		return false
	}
	for _, e := range b.entries {
		if e.dev == k.dev && e.prefix != k.prefix && e.prefix.Addr() == k.prefix.Addr() && len(e.users) > 0 && !e.owned() {
			return true
		}
	}
	return false
}

// marks reports whether the kernel keeps IFA_PROTO: it then marks addresses of its own, such as 127.0.0.1.
func (s State) marks() bool {
	for _, l := range s.Links {
		if slices.ContainsFunc(l.Addrs, func(a Addr) bool { return a.Proto != 0 }) {
			return true
		}
	}
	return false
}
