package mail

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay is a mail relay of which a test says how it behaves. It is reached over
// pipes, so that a test may run in a bubble.
type relay struct {
	mu      sync.Mutex
	down    bool                     // connections are refused
	answers func(line string) string // to a command; "": as a good relay
	hangs   bool                     // it takes the connection and says nothing
	dials   int
	open    int // connections of the moment
	most    int // at once
	got     []received
	conns   sync.WaitGroup
}

// received is a mail that was taken.
type received struct {
	from string
	to   []string
	text string
	at   time.Time
}

// DialContext implements dialer.
func (r *relay) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials++
	if r.down {
		return nil, fmt.Errorf("connection refused")
	}
	here, there := net.Pipe()
	r.open++
	r.most = max(r.most, r.open)
	r.conns.Go(func() { r.serve(there) })
	return &counted{Conn: here, r: r}, nil
}

// counted is the queue's end of a connection.
type counted struct {
	net.Conn
	r    *relay
	once sync.Once
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(func() { c.r.set(func() { c.r.open-- }) })
	return c.Conn.Close()
}

func (r *relay) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// mails are those that were taken.
func (r *relay) mails() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func (r *relay) answer(line string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers != nil {
		if a := r.answers(line); a != "" {
			return a
		}
	}
	switch {
	case line == "":
		return "220 relay"
	case strings.HasPrefix(line, "DATA"):
		return "354 go on"
	case strings.HasPrefix(line, "QUIT"):
		return "221 bye"
	}
	return "250 ok"
}

func (r *relay) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs {
		_, _ = in.ReadByte() // until the other side has enough
		return
	}
	say := func(s string) bool { _, err := fmt.Fprint(c, s+"\r\n"); return err == nil }
	if !say(r.answer("")) {
		return
	}
	var m received
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		answer := r.answer(line)
		good := strings.HasPrefix(answer, "2") || strings.HasPrefix(answer, "3")
		if !say(answer) {
			return
		}
		switch word, rest, _ := strings.Cut(line, ":"); {
		case word == "MAIL FROM" && good:
			m = received{from: rest}
		case word == "RCPT TO" && good:
			m.to = append(m.to, rest)
		case line == "DATA" && good:
			text, ok := data(in)
			if !ok {
				return
			}
			end := r.answer(".")
			if strings.HasPrefix(end, "2") {
				m.text, m.at = text, time.Now()
				r.set(func() { r.got = append(r.got, m) })
			}
			if !say(end) {
				return
			}
		case line == "QUIT":
			return
		}
	}
}

// data reads a mail to its end.
func data(in *bufio.Reader) (string, bool) {
	var text strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", false
		}
		if line == ".\r\n" {
			return text.String(), true
		}
		text.WriteString(strings.TrimPrefix(line, "."))
	}
}

// subjects are those of mails, in order.
func subjects(got []received) []string {
	var all []string
	for _, m := range got {
		for line := range strings.Lines(m.text) {
			if s, ok := strings.CutPrefix(line, "Subject: "); ok {
				all = append(all, strings.TrimSpace(s))
			}
		}
	}
	return all
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}
