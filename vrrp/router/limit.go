package router

import (
	"net/netip"
	"time"

	"vipd/vrrp/packet"
)

const (
	// limitPeriod is the least time between two reports of the same thing.
	limitPeriod = time.Minute
	// limitSize is how many different reports are remembered. When a flood of
	// invented sources fills it, further new ones are only counted.
	limitSize = 512
)

// limitKey is what makes two reports the same.
type limitKey struct {
	instance, text string
	reason         packet.DropReason
	source         netip.Addr
}

// limiter remembers when something was last reported.
type limiter map[limitKey]time.Time

// allow reports whether k may be reported now, and remembers it if so.
func (l limiter) allow(k limitKey, now time.Time) bool {
	last, seen := l[k]
	if seen && now.Sub(last) < limitPeriod {
		return false
	}
	if !seen && len(l) >= limitSize && !l.forget(now) {
		return false
	}
	l[k] = now
	return true
}

// forget drops what may be reported again anyway and reports whether there is room.
func (l limiter) forget(now time.Time) bool {
	for k, last := range l {
		if now.Sub(last) >= limitPeriod {
			delete(l, k)
		}
	}
	return len(l) < limitSize
}
