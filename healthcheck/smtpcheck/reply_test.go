package smtpcheck

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// FuzzReply: whatever a server says, a reply that is taken has a code of SMTP, is one
// line, and no more than its bounds are read; and one that RFC 5321 allows is taken.
func FuzzReply(f *testing.F) {
	for _, s := range []string{"220 a\r\n", "220-a\r\n220 b\r\n", "220\n", "22", "250-\r\n250\r\n", "999 a\r\n", "2200 a\r\n", "220_a\r\n", "220-a\r\n221 b\r\n", strings.Repeat("220-\n", 200)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		in := bytes.NewReader(said)
		got, err := newReplies(in).next()
		if read := len(said) - in.Len(); read > maxLine*(maxLines+1) {
			t.Fatalf("%d bytes were read", read)
		}
		if err != nil {
			return
		}
		if got.code < 200 || got.code > 599 || strings.ContainsAny(got.text, "\n") {
			t.Fatalf("%+v", got)
		}
		if !bytes.Contains(said, []byte(got.text)) {
			t.Fatalf("the text %q was not said", got.text)
		}
		if again, err := newReplies(io.MultiReader(strings.NewReader("250-x\r\n250 y\r\n"), strings.NewReader("junk"))).next(); err != nil || again.text != "x" {
			t.Fatalf("a good reply: %+v, %v", again, err)
		}
	})
}
