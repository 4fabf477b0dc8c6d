// Package misccheck is MISC_CHECK: the server is healthy when a program of the
// operator's says so. Whoever makes the checker lends it the means to run
// programs. See README.md.
package misccheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vipd/healthcheck"
)

// Outcome tells how a run of the program ended.
type Outcome struct {
	Exit     int    // its exit status, 0..255; -1: there is none
	TimedOut bool   // its time was up, and it was ended
	Err      error  // nil only for exit status 0; says what is wrong
	Output   string // its last line of output; may be empty
	Local    bool   // it could not be started because this machine lacks something
}

// Program runs the program once, with all its children ended after the timeout
// or when ctx ends, and returns when they are gone.
type Program func(ctx context.Context, timeout time.Duration) Outcome

// Config is what a MISC_CHECK needs.
type Config struct {
	Argv    []string
	User    string        // who runs it, for the identity of the check
	Timeout time.Duration // of the program
	Dynamic bool          // misc_dynamic: the exit status sets the weight
	Run     Program
	Places  *Places // bounds the programs at once
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	text := fmt.Sprintf("MISC_CHECK %q user %q timeout %v", c.Argv, c.User, c.Timeout)
	if c.Dynamic {
		text += " dynamic"
	}
	return text
}

// Checker is a healthcheck.Checker that runs a program.
type Checker struct{ cfg Config }

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	switch {
	case len(cfg.Argv) == 0 || cfg.Argv[0] == "":
		return nil, errors.New("making MISC_CHECK: there is no program")
	case cfg.Run == nil || cfg.Places == nil:
		return nil, errors.New("making MISC_CHECK: there is no way to run programs")
	case cfg.Timeout <= 0:
		return nil, fmt.Errorf("making MISC_CHECK: a timeout of %v", cfg.Timeout)
	}
	return &Checker{cfg: cfg}, nil
}

// Attempt is the deadline that a whole attempt needs for a timeout of the
// program: its time, that in which it is ended, and the wait for a place.
func Attempt(timeout, grace time.Duration) time.Duration { return 5 * (timeout + grace) }

// Check implements healthcheck.Checker. The program has its whole time from the
// moment in which it starts, however long it waited for its place.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	what := c.cfg.Argv[0]
	if err := c.cfg.Places.take(ctx); err != nil {
		r := healthcheck.Result{Detail: what + ": " + err.Error(), Latency: time.Since(start)}
		r.LocalFault = errors.Is(err, errNoPlace)
		return r
	}
	defer c.cfg.Places.leave()
	begun := time.Now()
	out := c.cfg.Run(ctx, c.cfg.Timeout)
	r := healthcheck.Result{Latency: time.Since(begun)}
	if ctx.Err() != nil && !out.TimedOut && out.Err != nil {
		r.Detail = what + ": " + out.Err.Error()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // it waited too long for its place
			r.LocalFault = true
			r.Detail = fmt.Sprintf("%s: had only %v of its %v: %v", what, r.Latency.Round(time.Millisecond), c.cfg.Timeout, c.cfg.Places.full())
		}
		return r
	}
	var text string
	r.OK, r.Weighting, text = c.judge(out)
	r.LocalFault = out.Local
	r.Detail = what + ": " + text
	if out.Output != "" {
		r.Detail += ": " + out.Output
	}
	r.Detail = healthcheck.OneLine(r.Detail)
	return r
}

// judge says what an outcome means, and puts it in words.
func (c *Checker) judge(out Outcome) (ok bool, w healthcheck.Weighting, text string) {
	text = "exit status 0"
	if out.Err != nil {
		text = out.Err.Error()
	}
	if out.Err != nil && (out.TimedOut || out.Exit < 0) {
		return false, w, text
	}
	if !c.cfg.Dynamic {
		return out.Exit == 0, w, text
	}
	switch {
	case out.Exit == 0:
		return true, w, text + ", the weight stays"
	case out.Exit == 1:
		return false, w, text
	default:
		w = healthcheck.Weighting{Set: true, N: out.Exit - 2}
		return true, w, fmt.Sprintf("%s, weight %d", text, w.N)
	}
}
