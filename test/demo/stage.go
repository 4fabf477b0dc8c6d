package main

import (
	"fmt"
	"strings"
	"time"

	"vipd/test/lab"
)

// stage is what a testing.T is to a test, with a voice.
type stage struct {
	*lab.Stage
	started time.Time
}

func newStage() *stage { return &stage{lab.NewStage("demo", "demo"), time.Now()} }

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
