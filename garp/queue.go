package garp

import (
	"slices"
	"time"
)

// queueKey names a queue: a physical interface and a kind.
type queueKey struct {
	base string
	kind Kind
}

// queue holds the targets that want frames out of one physical interface.
// A target is in at most one list of one queue, once.
type queue struct {
	key    queueKey
	gap    time.Duration // least time between two frames
	next   time.Time     // no frame before
	full   int           // times in a row that the kernel's queue was full
	first  fifo          // not announced yet
	repeat fifo          // the others, round-robin
}

func (q *queue) empty() bool { return q.first.len() == 0 && q.repeat.len() == 0 }

// pop takes the target whose turn it is.
func (q *queue) pop() *target {
	if q.first.len() > 0 {
		return q.first.pop()
	}
	return q.repeat.pop()
}

// fifo is a queue of targets that reuses its memory.
type fifo struct {
	items []*target
	head  int
}

func (f *fifo) len() int { return len(f.items) - f.head }

func (f *fifo) push(t *target) {
	if len(f.items) == cap(f.items) && f.head > len(f.items)/2 { // room in front instead of growth
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, t)
}

func (f *fifo) pushFront(t *target) {
	if f.head > 0 {
		f.head--
		f.items[f.head] = t
		return
	}
	f.items = slices.Insert(f.items, 0, t)
}

func (f *fifo) pop() *target {
	t := f.items[f.head]
	f.items[f.head] = nil
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return t
}

// remove takes out every target for which drop is true.
func (f *fifo) remove(drop func(*target) bool) {
	f.items = append(f.items[:0], f.items[f.head:]...)
	f.head = 0
	f.items = slices.DeleteFunc(f.items, drop)
}
