package uml

import (
	"bytes"
	"testing"
)

// Only the verdict goes, however the bytes are cut, and no line that looks like it.
func TestVerdictIsTakenAway(t *testing.T) {
	for stream, want := range map[string]string{
		"one\nPASS\ntwo\nFAIL\n": "one\nPASS\ntwo\n",
		"PASS\nFAIL\nPASS\n":     "PASS\nFAIL\n",
		"one\n\tPASS\n":          "one\n\tPASS\n",
		"panic: x\n\nend":        "panic: x\n\nend\n",
		"PASS\n":                 "",
	} {
		for size := 1; size <= len(stream); size++ {
			var out bytes.Buffer
			v := &verdictless{out: &out}
			for rest := []byte(stream); len(rest) > 0; {
				n := min(size, len(rest))
				if _, err := v.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			v.flush()
			if out.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", stream, size, out.String(), want)
			}
		}
	}
}
