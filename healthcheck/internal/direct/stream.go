package direct

import (
	"io"
	"syscall"
	"time"
)

const (
	firstWait  = 250 * time.Millisecond // before something is sent again; then twice as long
	longestGap = 2 * time.Second        // between two of these
	window     = 1 << 14                // bytes that a peer may send; what comes is taken at once
)

// stream is the client's end of one TCP connection (RFC 9293), as far as a check
// needs it: one side asks, the other answers. What comes out of order is not kept,
// the peer sends it again. It is pure: time and segments come as parameters.
type stream struct {
	state     state
	una, next uint32 // of ours: not acknowledged, to be sent
	expected  uint32 // of the peer's
	mss       int
	unsent    []byte // what follows una, acknowledged or not sent yet
	room      uint32 // that the peer has for us
	in        []byte // what came and was not read
	ended     bool   // the peer has sent its last byte
	err       error  // why nothing more comes
	due       time.Time
	gap       time.Duration
}

type state int

const (
	connecting state = iota
	open
	failed
)

// begin returns the first segment.
func (s *stream) begin(now time.Time, first uint32) segment {
	s.una, s.next, s.mss = first, first+1, usualMSS
	s.again(now, firstWait)
	return s.syn()
}

func (s *stream) syn() segment {
	return segment{seq: s.una, flags: flagSYN, window: window, mss: ownMSS}
}

func (s *stream) again(now time.Time, gap time.Duration) {
	s.gap = min(gap, longestGap)
	s.due = now.Add(s.gap)
}

// after reports whether a comes after b in the sequence, which goes round.
func after(a, b uint32) bool { return int32(a-b) > 0 }

// take takes a segment of the peer and returns those to be sent.
func (s *stream) take(now time.Time, in segment) (out []segment) {
	if s.state == failed {
		return nil
	}
	if s.state == connecting {
		return s.answered(now, in)
	}
	switch {
	case in.flags&flagRST != 0:
		if in.seq == s.expected || after(in.seq, s.expected) && in.seq-s.expected < window {
			s.fail(syscall.ECONNRESET)
		}
		return nil
	case in.flags&flagSYN != 0:
		return []segment{s.acknowledge()} // its SYN again: it has not seen our answer
	case in.flags&flagACK == 0:
		return nil
	}
	s.acknowledged(now, in)
	if in.length() == 0 {
		return s.flush()
	}
	// What is old already is cut off.
	if skip := s.expected - in.seq; skip > 0 && skip < 1<<31 {
		if skip >= in.length() {
			return append(s.flush(), s.acknowledge())
		}
		in.data = in.data[min(int(skip), len(in.data)):]
		in.seq += skip
	}
	if in.seq == s.expected && !s.ended {
		s.in = append(s.in, in.data...)
		s.expected += uint32(len(in.data))
		if in.flags&flagFIN != 0 {
			s.expected++
			s.ended = true
		}
	}
	return append(s.flush(), s.acknowledge())
}

// answered takes the answer to the SYN.
func (s *stream) answered(now time.Time, in segment) []segment {
	good := in.flags&flagACK != 0 && in.ack == s.next
	switch {
	case in.flags&flagRST != 0 && good:
		s.fail(syscall.ECONNREFUSED)
		return nil
	case in.flags&flagACK != 0 && !good:
		if in.flags&flagRST != 0 {
			return nil
		}
		// Of an older connection with this port, which the peer still has.
		return []segment{{seq: in.ack, flags: flagRST}}
	case in.flags&(flagSYN|flagACK) != flagSYN|flagACK:
		return nil
	}
	s.state, s.una, s.expected, s.room = open, in.ack, in.seq+1, uint32(in.window)
	if in.mss > 0 {
		s.mss = min(max(int(in.mss), 64), ownMSS)
	}
	s.due = time.Time{}
	return []segment{s.acknowledge()}
}

// acknowledged takes what the peer says of our bytes.
func (s *stream) acknowledged(now time.Time, in segment) {
	if after(in.ack, s.next) || after(s.una, in.ack) {
		return
	}
	n := in.ack - s.una
	s.unsent = s.unsent[min(int(n), len(s.unsent)):]
	s.una, s.room = in.ack, uint32(in.window)
	switch {
	case s.una == s.next && len(s.unsent) == 0:
		s.due = time.Time{}
	case n > 0:
		s.again(now, firstWait)
	}
}

func (s *stream) acknowledge() segment {
	return segment{seq: s.next, ack: s.expected, flags: flagACK, window: window}
}

// write takes bytes to send and returns the segments for which the peer has room.
func (s *stream) write(now time.Time, b []byte) []segment {
	s.unsent = append(s.unsent, b...)
	if s.due.IsZero() {
		s.again(now, firstWait)
	}
	return s.flush()
}

// flush returns segments with what was not sent yet.
func (s *stream) flush() (out []segment) {
	for {
		done := s.next - s.una
		rest := len(s.unsent) - int(done)
		room := int64(s.room) - int64(done)
		n := min(rest, s.mss, int(room))
		if n <= 0 {
			return out
		}
		out = append(out, s.data(s.next, s.unsent[done:int(done)+n]))
		s.next += uint32(n)
	}
}

func (s *stream) data(seq uint32, b []byte) segment {
	return segment{seq: seq, ack: s.expected, flags: flagACK | flagPSH, window: window, data: b}
}

// expire returns what is to be sent again when it is time for it.
func (s *stream) expire(now time.Time) []segment {
	if s.state == failed || s.due.IsZero() || now.Before(s.due) {
		return nil
	}
	s.again(now, 2*s.gap)
	if s.state == connecting {
		return []segment{s.syn()}
	}
	// One byte also when there is no room: the peer's answer says when there is.
	n := min(max(int(s.next-s.una), 1), s.mss, len(s.unsent))
	if n == 0 {
		return nil
	}
	if after(s.una+uint32(n), s.next) {
		s.next = s.una + uint32(n)
	}
	return []segment{s.data(s.una, s.unsent[:n])}
}

// read takes what came; 0 bytes without an error: nothing yet.
func (s *stream) read(b []byte) (int, error) {
	n := copy(b, s.in)
	s.in = s.in[n:]
	switch {
	case n > 0 || len(b) == 0:
		return n, nil
	case s.ended:
		return 0, io.EOF
	}
	return 0, s.err
}

// reset is the segment that ends the connection; none is needed for one that never was.
func (s *stream) reset() segment {
	if s.state == connecting {
		return segment{seq: s.una + 1, flags: flagRST}
	}
	return segment{seq: s.next, ack: s.expected, flags: flagRST | flagACK}
}

func (s *stream) fail(err error) { s.state, s.err = failed, err }
