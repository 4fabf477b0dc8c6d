package lab

import "time"

// stallLimit is how long the capture's reader, which wakes up every 20 ms, may
// be kept from running before the machine counts as standing still.
const stallLimit = 100 * time.Millisecond

// stall is a time during which the machine ran none of the test.
type stall struct{ from, to time.Time }

// noteStall takes in how long one turn of the reader took; mu is held.
func (c *Capture) noteStall(from, to time.Time) {
	if to.Sub(from) > stallLimit {
		c.stalls = append(c.stalls, stall{from, to})
	}
}

// Stalled is for how long, between two times, the machine stood still: not even
// the capture's reader got a processor. What was late then is nobody's fault.
func (c *Capture) Stalled(from, to time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum time.Duration
	for _, s := range c.stalls {
		begin, end := s.from, s.to
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}
