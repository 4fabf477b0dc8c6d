package uml

import (
	"bytes"
	"testing"
)

// The console's output must not depend on how the bytes are cut.
func TestConsolePassesWhatIsBetweenMarkers(t *testing.T) {
	stream := "boot noise\n" + markerBegin + "a@@b@@vipd-uml-e\nlast" + markerEnd + "halting\n"
	want := "a@@b@@vipd-uml-e\nlast"
	for size := 1; size <= len(stream); size++ {
		var out bytes.Buffer
		c := &console{out: &out}
		for rest := []byte(stream); len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		c.flush()
		if out.String() != want {
			t.Fatalf("cut in pieces of %d: %q, want %q", size, out.String(), want)
		}
	}
}

func TestConsoleWithoutEndKeepsNothingBack(t *testing.T) {
	var out bytes.Buffer
	c := &console{out: &out}
	if _, err := c.Write([]byte(markerBegin + "panic: x\n@@vipd")); err != nil {
		t.Fatal(err)
	}
	c.flush()
	if out.String() != "panic: x\n@@vipd" {
		t.Fatalf("output %q", out.String())
	}
}

func TestQuoteAndShellName(t *testing.T) {
	if got := quote(`it's`); got != `'it'\''s'` {
		t.Errorf("quote: %s", got)
	}
	for name, want := range map[string]bool{"A_1": true, "1A": false, "": false, "a-b": false, "BASH_FUNC_x%%": false} {
		if shellName(name) != want {
			t.Errorf("shellName(%q) = %v", name, !want)
		}
	}
}
