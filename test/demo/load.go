package main

import (
	"net/netip"
	"time"

	"vipd/test/lab"
)

// try is one connection of the steady client.
type try struct {
	at  time.Time
	err error
}

// load is a client that opens one connection after the other.
type load struct {
	quit chan struct{}
	done chan []try
}

// startLoad starts the client.
func (s *site) startLoad(to netip.AddrPort) *load {
	l := &load{quit: make(chan struct{}), done: make(chan []try, 1)}
	go func() {
		var tries []try
		defer func() { l.done <- tries }()
		for {
			select {
			case <-l.quit:
				return
			default:
			}
			at := time.Now()
			_, err := s.cl.Spread(to, 1, 1, time.Second)
			tries = append(tries, try{at, err})
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return l
}

// stop ends it and returns what it saw.
func (l *load) stop() []try {
	close(l.quit)
	return <-l.done
}

// tally of connections.
type tally struct{ all, failed int }

// counts the connections begun in a stretch of time.
func counts(tries []try, from, to time.Time) tally {
	list := lab.Filter(tries, func(t try) bool { return !t.at.Before(from) && t.at.Before(to) })
	return tally{len(list), len(lab.Filter(list, func(t try) bool { return t.err != nil }))}
}
