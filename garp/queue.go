package garp

import (
	"slices"
	"time"
)

// queueKey names a queue: a physical interface, or those of a group with blanks
// between them, and a kind.
type queueKey struct {
	base string
	kind Kind
}

// queue holds the targets that want frames out of one physical interface or one
// group of them. A target is in at most one list of one queue, once.
type queue struct {
	key    queueKey
	gap    time.Duration // least time between two frames
	last   time.Time     // last frame; zero: none
	hold   time.Time     // no frame before, for the kernel's queue was full
	first  fifo          // not announced yet
	repeat fifo          // the others, round-robin
}

func (q *queue) empty() bool { return q.first.len() == 0 && q.repeat.len() == 0 }

// ready is when the next frame may be sent.
func (q *queue) ready() time.Time {
	if at := q.last.Add(q.gap); !q.last.IsZero() && at.After(q.hold) {
		return at
	}
	return q.hold
}

// pushBack lists a target whose frame found the kernel's queue full: in front of the
// others, but not of those on other interfaces of a group.
func (q *queue) pushBack(t *target, shared bool) {
	t.queue, t.early = q, t.fresh && !shared
	switch {
	case shared:
		q.repeat.push(t)
	case t.early:
		q.first.pushFront(t)
	default:
		q.repeat.pushFront(t)
	}
}

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
