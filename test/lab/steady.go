package lab

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Attempt is one connection of a Steady client.
type Attempt struct {
	At     time.Time     // when it began
	Took   time.Duration // until the answer or the failure
	Server string        // that answered, "" on failure
	Err    error         // why it failed
}

// Time implements Stamped: when the attempt began.
func (a Attempt) Time() time.Time { return a.At }

// Steady is a client that makes one connection after the other.
type Steady struct {
	quit chan struct{}
	done chan struct{}

	mu       sync.Mutex
	attempts []Attempt
	err      error // of entering the namespace
}

// Steady starts a client that connects, asks who is there, closes, pauses and
// goes on so until Stop or the end of the test. Each connection may take limit.
func (n *Node) Steady(to netip.AddrPort, pause, limit time.Duration) *Steady {
	n.lab.t.Helper()
	s := &Steady{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = n.Go(func() error {
			for {
				select {
				case <-s.quit:
					return nil
				case <-time.After(pause):
				}
				c := open(to, limit)
				c.Close()
				s.mu.Lock()
				s.attempts = append(s.attempts, Attempt{c.Opened, time.Since(c.Opened), c.Server, c.Err})
				s.mu.Unlock()
			}
		})
	}()
	n.lab.atEnd(s.halt)
	return s
}

func (s *Steady) halt() {
	select {
	case <-s.quit:
	default:
		close(s.quit)
	}
	<-s.done
}

// Stop ends the client and returns all its attempts, in order.
func (s *Steady) Stop() []Attempt {
	s.halt()
	return s.Attempts()
}

// Attempts returns the finished ones so far, in order.
func (s *Steady) Attempts() []Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.attempts)
}

// Failed keeps the attempts that were not answered.
func Failed(list []Attempt) []Attempt {
	return Filter(list, func(a Attempt) bool { return a.Err != nil })
}
