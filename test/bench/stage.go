package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"vipd/test/lab"
)

// stage is the lab.T of one section.
type stage struct {
	name     string
	cleanups []func()
	failed   bool
}

var _ lab.T = (*stage)(nil)

// failure ends a section from within the lab.
type failure struct{}

func newStage(name string) *stage { return &stage{name: name} }

// Helper implements lab.T.
func (*stage) Helper() {}

// Name implements lab.T.
func (s *stage) Name() string { return s.name }

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
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
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
