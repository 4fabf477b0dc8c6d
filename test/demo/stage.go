package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"vipd/test/lab"
)

// stage is what a testing.T is to a test: the lab reports to it.
type stage struct {
	started  time.Time
	cleanups []func()
	failed   bool
}

var _ lab.T = (*stage)(nil)

// failure ends the show from within the lab.
type failure struct{}

func newStage() *stage { return &stage{started: time.Now()} }

// Helper implements lab.T.
func (*stage) Helper() {}

// Name implements lab.T.
func (*stage) Name() string { return "demo" }

// Context implements lab.T.
func (*stage) Context() context.Context { return context.Background() }

// Cleanup implements lab.T.
func (s *stage) Cleanup(fn func()) { s.cleanups = append(s.cleanups, fn) }

// Failed implements lab.T.
func (s *stage) Failed() bool { return s.failed }

// Logf implements lab.T.
func (*stage) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// Errorf implements lab.T.
func (s *stage) Errorf(format string, args ...any) {
	s.failed = true
	fmt.Fprintf(os.Stderr, "demo: "+format+"\n", args...)
}

// Fatalf implements lab.T.
func (s *stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(failure{})
}

// close takes everything down, last made first.
func (s *stage) close() {
	for _, fn := range slices.Backward(s.cleanups) {
		fn()
	}
	s.cleanups = nil
}

// headline announces a scene with the time since the start.
func (s *stage) headline(format string, args ...any) {
	line := fmt.Sprintf("%5.1f s  %s", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
	fmt.Printf("\n%s\n%s\n", line, strings.Repeat("─", len([]rune(line))))
}

// say prints an indented line.
func (*stage) say(format string, args ...any) { fmt.Printf("    "+format+"\n", args...) }

// indent shifts a text to the right.
func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
