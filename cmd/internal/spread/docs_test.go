package spread

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"vipd/conf"
)

// TestDocumentation: the tables of docs/spread.md are what the file on that page
// gives, and what it gives with one director more.
func TestDocumentation(t *testing.T) {
	const page = "../../../docs/spread.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	file := fenced(string(b), "toml", 0)
	load := func(text string) *conf.Config {
		c, diags := conf.Load(fstest.MapFS{"vipd.toml": {Data: []byte(text)}}, "vipd.toml", conf.Env{Hostname: "director1"})
		if c == nil {
			t.Fatal(diags.Text())
		}
		return c
	}
	old := New("/etc/vipd/vipd.toml", load(file), "")
	r := New("new.toml", load(strings.Replace(file, `"director4"]`, `"director4", "director5"]`, 1)), "")
	r.Compare(old)
	var plan, more bytes.Buffer
	if err := old.WriteText(&plan); err != nil {
		t.Fatal(err)
	}
	r.Spreads[0].writeChange(&more)
	for i, want := range []string{plan.String(), strings.TrimLeft(more.String(), "\n")} {
		got := fenced(string(b), "text", i)
		if got == want {
			continue
		}
		if !*update {
			t.Errorf("%s: table %d is not what vipd spread prints; go test -update puts it in", page, i+1)
			continue
		}
		parts := strings.SplitAfter(string(b), "```text\n")
		parts[i+1] = want + strings.TrimPrefix(parts[i+1], got)
		b = []byte(strings.Join(parts, ""))
		if err := os.WriteFile(page, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fenced returns the i-th block of a page that is fenced with the word.
func fenced(page, word string, i int) string {
	parts := strings.Split(page, "```"+word+"\n")
	if len(parts) < i+2 {
		return ""
	}
	text, _, _ := strings.Cut(parts[i+1], "```")
	return text
}
