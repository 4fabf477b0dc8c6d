package lab

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// Stage is a T for programs that are no tests: it prints what the lab has to say, to standard error under the name of
// the program what is wrong.
type Stage struct {
	program, name string
	cleanups      []func()
	failed        bool
}

var _ T = (*Stage)(nil)

// Failure is what Fatalf panics with; whoever uses a Stage recovers it.
type Failure struct{}

// NewStage returns the stage of one part of a program.
func NewStage(program, name string) *Stage { return &Stage{program: program, name: name} }

// Helper implements T.
func (*Stage) Helper() {}

// Name implements T.
func (s *Stage) Name() string { return s.name }

// Context implements T.
func (*Stage) Context() context.Context { return context.Background() }

// Cleanup implements T.
func (s *Stage) Cleanup(fn func()) { s.cleanups = append(s.cleanups, fn) }

// Failed implements T.
func (s *Stage) Failed() bool { return s.failed }

// Logf implements T.
func (*Stage) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// Errorf implements T.
func (s *Stage) Errorf(format string, args ...any) {
	s.failed = true
	fmt.Fprintf(os.Stderr, s.program+": "+format+"\n", args...)
}

// Fatalf implements T.
func (s *Stage) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	panic(Failure{})
}

// Close takes everything down, last made first.
func (s *Stage) Close() {
	for _, fn := range slices.Backward(s.cleanups) {
		fn()
	}
	s.cleanups = nil
}
