package kernel

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"vipd/test/lab"
)

// talker is a client with many connections that say something now and then.
type talker struct {
	t     *testing.T
	conns []*talk
	kinds []string // of connections, in order
	quit  chan struct{}
	wg    sync.WaitGroup
}

// talk is one connection.
type talk struct {
	*lab.Conn
	kind  string // how often it speaks, or how old it is
	pause time.Duration

	mu     sync.Mutex // held while it speaks
	err    error      // of its death
	last   time.Time  // when it was answered last
	waited time.Duration
	told   bool // the death is in the table
}

// answerWithin is how long an answer may take: a packet that was lost while nobody had the address is sent again after a
// time that doubles.
const answerWithin = 15 * time.Second

// talkers opens n connections for each pause; they talk until stop.
func (s *site) talkers(to netip.AddrPort, n int, pauses ...time.Duration) *talker {
	s.t.Helper()
	k := &talker{t: s.t, quit: make(chan struct{})}
	for _, p := range pauses {
		s.join(k, to, n, fmt.Sprintf("one message in %v", p), p)
	}
	return k
}

// join opens n more connections, of a kind of their own.
func (s *site) join(k *talker, to netip.AddrPort, n int, kind string, pause time.Duration) {
	s.t.Helper()
	k.kinds = append(k.kinds, kind)
	for i, c := range s.cl.Open(to, n, 8, patience) {
		if c.Err != nil {
			s.t.Fatalf("connection %d: %v", i, c.Err)
		}
		one := &talk{Conn: c, kind: kind, pause: pause}
		k.conns = append(k.conns, one)
		k.wg.Go(func() { one.run(pause*time.Duration(i)/time.Duration(n), k.quit) })
	}
}

// run talks until it dies or quit is closed.
func (c *talk) run(first time.Duration, quit <-chan struct{}) {
	for wait := first; ; wait = c.pause {
		select {
		case <-time.After(wait):
		case <-quit:
			return
		}
		if !c.speak() {
			return
		}
	}
}

// speak says something, and reports whether it was answered, by the server that was first.
func (c *talk) speak() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	began := time.Now()
	server, err := c.Ask(answerWithin)
	if err == nil && server != c.Server {
		err = fmt.Errorf("%s answered a connection of %s", server, c.Server)
	}
	c.err, c.last = err, time.Now()
	c.waited = max(c.waited, c.last.Sub(began))
	return err == nil
}

// survived is a table: what connections lived through, and how.
type survived struct {
	t    *testing.T
	rows []survivedRow
}

type survivedRow struct {
	what, kind string
	of, lost   int
	outage     time.Duration // the longest that a message waited for its answer
}

// add has every connection speak that has not since an event began, and notes what became of them since the last call.
// It returns how many died.
func (s *survived) add(what string, k *talker, since time.Time) (lost int) {
	s.t.Helper()
	var wg sync.WaitGroup
	for _, c := range k.conns {
		wg.Go(func() {
			c.mu.Lock()
			silent := c.last.Before(since)
			c.mu.Unlock()
			if silent {
				c.speak()
			}
		})
	}
	wg.Wait()
	for _, kind := range k.kinds {
		row := survivedRow{what: what, kind: kind}
		var first error
		for _, c := range k.conns {
			if c.kind != kind {
				continue
			}
			c.mu.Lock()
			switch {
			case c.err == nil:
				row.of++
				row.outage = max(row.outage, c.waited)
			case !c.told:
				row.of++
				row.lost++
				c.told = true
				if first == nil {
					first = c.err
				}
			}
			c.waited = 0
			c.mu.Unlock()
		}
		if row.lost > 0 {
			s.t.Logf("%s, %s: the first of %d that died: %v", what, kind, row.lost, first)
		}
		s.rows = append(s.rows, row)
		lost += row.lost
	}
	return lost
}

// print logs the table.
func (s *survived) print() {
	s.t.Helper()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tconnections\tlost\toutage")
	for _, r := range s.rows {
		fmt.Fprintf(w, "%s, %s\t%d\t%d\t%v\n", r.what, r.kind, r.of, r.lost, r.outage.Round(time.Millisecond))
	}
	w.Flush()
	s.t.Logf("connections:\n%s", b.String())
}

// stop ends the talking.
func (k *talker) stop() {
	close(k.quit)
	k.wg.Wait()
	for _, c := range k.conns {
		c.Close()
	}
}
