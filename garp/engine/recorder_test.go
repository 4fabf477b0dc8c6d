package engine

import (
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// sent is a frame that the recorder got.
type sent struct {
	at    time.Duration // since the recorder was made
	index int
	frame string // hex
}

// recorder is a Port that remembers, or fails as told.
type recorder struct {
	start time.Time
	fail  func() error // nil: success

	mu  sync.Mutex
	got []sent
}

func (r *recorder) Send(index int, frame []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(); err != nil {
			return err
		}
	}
	r.got = append(r.got, sent{time.Since(r.start), index, hex.EncodeToString(frame)})
	return nil
}

// take hands out what came since the last call.
func (r *recorder) take() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

func (r *recorder) setFail(f func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = f
}

// times lists when frames were sent, each time once, with the count.
func times(frames []sent) string {
	var out []string
	for i := 0; i < len(frames); {
		n := 1
		for i+n < len(frames) && frames[i+n].at == frames[i].at {
			n++
		}
		out = append(out, fmt.Sprintf("%v×%d", frames[i].at, n))
		i += n
	}
	return fmt.Sprint(out)
}

type discard struct{}

func (discard) Send(int, []byte) error { return nil }

type stamp chan time.Time

func (s stamp) Send(int, []byte) error { s <- time.Now(); return nil }
