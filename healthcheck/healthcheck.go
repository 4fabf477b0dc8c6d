// Package healthcheck says what a check of a real server is and what its
// results mean. It is pure: no I/O, no goroutine, no clock. The kinds of check
// live in packages of their own (tcpcheck, httpcheck), package run decides when
// they run.
package healthcheck

import (
	"context"
	"strings"
	"time"
	"unicode"
)

// Result is the outcome of one attempt.
type Result struct {
	OK     bool   // the server answered as wanted
	Detail string // one line for the operator: what was asked, what came back
	// Latency is the time from the start of the attempt to its decision.
	Latency time.Duration
	// LocalFault says that this machine, not the server, was the reason (no
	// descriptors, no local ports, no memory). OK is then without meaning: the
	// result raises an alarm and changes no verdict.
	LocalFault bool
	// Refused says that the server's machine answered at once that nobody serves
	// there: nothing was lost on the way, and waiting tells no more.
	Refused bool
	// Weighting is what a result that is OK does to the weight of the server.
	Weighting Weighting
}

// Checker is one check of one server. Check makes one attempt and returns when
// it has decided or ctx has ended, whichever is first; ctx carries the deadline
// of the whole attempt. It leaves no goroutine and no descriptor behind and may
// be called again, but not at the same time as itself.
type Checker interface {
	Check(ctx context.Context) Result
}

// Keeper is a Checker that knows something of its last attempts. Whoever replaces it by another keeps it when Same says
// that the other one would do just as it does; that may be while an attempt is made.
type Keeper interface {
	Checker
	Same(other Checker) bool
}

// Waiter is a Checker an attempt of which is nothing but waiting until one descriptor is
// writable: whoever has thousands of them waits for all at once, without a goroutine
// and a timer for each. Its methods do not block; Begin and End are called in turn.
type Waiter interface {
	Checker
	// Begin begins an attempt and returns the descriptor to wait for, or a negative number
	// and the result when it is decided already.
	Begin() (fd int, r Result)
	// End ends the attempt, closes the descriptor, and returns the result. limit is the
	// time that the attempt had.
	End(fd int, why Reason, limit time.Duration) Result
}

// Reason is why the waiting for a descriptor ended.
type Reason uint8

// The reasons.
const (
	Ready   Reason = iota // it is writable, and nothing else was told of it
	Trouble               // it has an error, or its other end is gone
	Over                  // there is no time left
)

// Verdict is what the results so far say about a server.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota // no result yet
	Up
	Down
)

// String gives "unknown", "up" or "down".
func (v Verdict) String() string {
	switch v {
	case Up:
		return "up"
	case Down:
		return "down"
	default:
		return "unknown"
	}
}

// OneLine keeps a detail that quotes others (a server, a program, a file) to one line
// that does nothing to a terminal: what cannot be printed is a dot.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, strings.ToValidUTF8(s, "."))
}
