// Package filecheck is FILE_CHECK: the server is healthy when a file of the
// operator's says so, and gets its weight from it. Whoever makes the checker
// watches the file. See README.md.
package filecheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vipd/healthcheck"
)

// lookEvery is how often a file is asked for that was not read yet.
const lookEvery = 5 * time.Millisecond

// Content is what a file says.
type Content struct {
	Value   int
	Known   bool   // it was looked at
	Problem string // why Value is 0 although the file does not say so; "": nothing
}

// Config is what a FILE_CHECK needs.
type Config struct {
	File    string // the name of the track file
	Dynamic bool   // the value, times Weight, is added to the weight of the server
	Weight  int
	Reverse bool // it is taken away instead
	// Read gives what the file says at this moment, without waiting for anything.
	Read func() Content
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string {
	text := "FILE_CHECK " + c.File
	if c.weighs() {
		text += fmt.Sprintf(" weight %d", c.factor())
	}
	return text
}

// weighs reports whether the value changes the weight instead of deciding alone.
func (c Config) weighs() bool { return c.Dynamic && c.Weight != 0 }

func (c Config) factor() int {
	if c.Reverse {
		return -c.Weight
	}
	return c.Weight
}

// Checker is a healthcheck.Checker that looks at what a file says.
type Checker struct{ cfg Config }

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	if cfg.File == "" || cfg.Read == nil {
		return nil, errors.New("making FILE_CHECK: there is no file")
	}
	return &Checker{cfg: cfg}, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	r := c.look(ctx)
	r.Latency = time.Since(start)
	return r
}

func (c *Checker) look(ctx context.Context) healthcheck.Result {
	if err := ctx.Err(); err != nil {
		return healthcheck.Result{Detail: "track file " + c.cfg.File + ": " + err.Error()}
	}
	now := c.cfg.Read()
	for !now.Known && wait(ctx) {
		now = c.cfg.Read()
	}
	if !now.Known {
		return healthcheck.Result{Detail: "track file " + c.cfg.File + " was not read yet", LocalFault: true}
	}
	r := healthcheck.Result{OK: now.Value == 0, Detail: fmt.Sprintf("track file %s says %d", c.cfg.File, now.Value)}
	if c.cfg.weighs() {
		r.OK = true
		r.Weighting.N = clamp(now.Value * c.cfg.factor())
		r.Detail += fmt.Sprintf(", weight %+d", r.Weighting.N)
	}
	if now.Problem != "" {
		r.Detail += " (" + healthcheck.OneLine(now.Problem) + ")"
	}
	return r
}

// wait lets the first look at the file pass; false: the attempt is over.
func wait(ctx context.Context) bool {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// clamp bounds a change of the weight: more than from one end to the other means nothing.
func clamp(n int) int { return min(max(n, -healthcheck.MaxWeight), healthcheck.MaxWeight) }
