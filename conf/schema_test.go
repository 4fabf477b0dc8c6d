package conf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestReference: docs/reference.md is what the schema says.
func TestReference(t *testing.T) {
	compareGolden(t, "../docs/reference.md", Reference())
}

// TestSchemaIsComplete: every key says what it does and has a kind, bounds and
// words where its kind needs them, and no spelling is taken twice.
func TestSchemaIsComplete(t *testing.T) {
	for _, b := range blocks() {
		if b.doc == "" || b.header == "" {
			t.Errorf("block %s has no header or description", b.name)
		}
		seen := map[string]bool{}
		for _, name := range b.names() {
			if seen[name] {
				t.Errorf("%s.%s is in the schema twice", b.name, name)
			}
			seen[name] = true
			if lookupKeyword(b.name, name) != nil {
				t.Errorf("%s.%s is a key and also a keyword without support", b.name, name)
			}
		}
		for _, k := range b.keys {
			switch {
			case k.kind == nil || k.doc == "":
				t.Errorf("%s.%s has no kind or description", b.name, k.name)
			case k.need && (k.def != nil || k.defText != ""):
				t.Errorf("%s.%s must be given and has a default", b.name, k.name)
			case (k.kind == intKind || k.kind == timeKind || k.kind == textKind || k.kind == solidKind) && k.max <= k.min:
				t.Errorf("%s.%s has no bounds", b.name, k.name)
			case k.kind == choiceKind && len(k.words) == 0:
				t.Errorf("%s.%s has no words", b.name, k.name)
			}
		}
	}
	for _, k := range keywords {
		if k.advice == "" {
			t.Errorf("keywords %q: there is no advice", k.words)
		}
		for _, name := range k.blocks {
			if !slices.ContainsFunc(blocks(), func(b *block) bool { return b.name == name }) {
				t.Errorf("keywords %q stand in block %q, which does not exist", k.words, name)
			}
		}
	}
}

// TestEveryKeywordIsAnswered: each word of keepalived is a key or gets an
// answer of its own, never "unknown key".
func TestEveryKeywordIsAnswered(t *testing.T) {
	text, err := os.ReadFile("testdata/keywords.txt")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		i := slices.IndexFunc(blocks(), func(b *block) bool { return b.name == words[0] })
		if i < 0 {
			t.Fatalf("no block %q", words[0])
		}
		for _, w := range words[1:] {
			count++
			if blocks()[i].find(w) == nil && lookupKeyword(words[0], w) == nil {
				t.Errorf("%s in %s has no answer", w, words[0])
			}
		}
	}
	if count < 300 {
		t.Errorf("only %d keywords in the list", count)
	}
}

// TestEveryKeyIsUsedWell: each spelling of each key is in a file of the good
// corpus, so that no key is only ever tested by its errors.
func TestEveryKeyIsUsedWell(t *testing.T) {
	used := map[string]bool{}
	var walk func(b *block, it *item)
	walk = func(b *block, it *item) {
		for _, entry := range it.keys {
			name, child := entry.name, entry.it
			k := b.find(name)
			if k == nil {
				continue
			}
			used[b.name+"."+name] = true
			if k.block == nil {
				continue
			}
			switch {
			case k.kind == namedKind:
				for _, entry := range child.keys {
					walk(k.block, entry.it)
				}
			case child.kind == arrayItem:
				for _, entry := range child.list {
					walk(k.block, entry)
				}
			default:
				walk(k.block, child)
			}
		}
	}
	files, err := filepath.Glob("testdata/good/*.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root, _ := index(newSource(file, string(text)))
		walk(rootBlock, root)
	}
	for _, b := range blocks() {
		for _, name := range b.names() {
			if k := b.find(name); b.shares(k) {
				continue
			}
			if !used[b.name+"."+name] {
				t.Errorf("%s.%s is in no file of testdata/good", b.name, name)
			}
		}
	}
}

// TestDocumentation: the example is good without a warning, and so is every
// TOML block of the pages. The README counts from the moment it exists.
func TestDocumentation(t *testing.T) {
	if c, diags := everything(t, "../docs", "vipd.example.toml"); len(diags) > 0 {
		t.Errorf("docs/vipd.example.toml:\n%s", diags.Text())
	} else if len(c.Instances) < 2 || len(c.VirtualServers) < 2 {
		t.Errorf("docs/vipd.example.toml shows %d instances and %d services", len(c.Instances), len(c.VirtualServers))
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if os.IsNotExist(err) && page == "../README.md" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range tomlBlocks(string(text)) {
			c, diags := Load(fstest.MapFS{"vipd.toml": {Data: []byte(b.text)}}, "vipd.toml", env)
			if c == nil {
				t.Errorf("%s:%d: the TOML block is wrong (its lines count from 1):\n%s", page, b.line, diags.Text())
			}
		}
	}
}

// tomlBlock is a fenced block of a Markdown page.
type tomlBlock struct {
	line int
	text string
}

// tomlBlocks returns the blocks that are fenced as toml.
func tomlBlocks(page string) []tomlBlock {
	var blocks []tomlBlock
	inside := false
	for i, line := range strings.Split(page, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case !inside && strings.HasPrefix(trimmed, "```toml"):
			inside = true
			blocks = append(blocks, tomlBlock{line: i + 1})
		case inside && trimmed == "```":
			inside = false
		case inside:
			blocks[len(blocks)-1].text += line + "\n"
		}
	}
	return blocks
}

// TestTOMLBlocks: the test above would see a wrong block.
func TestTOMLBlocks(t *testing.T) {
	got := tomlBlocks("a\n```toml\nx = 1\n```\n```sh\ny\n```\n  ```toml\n  z = 2\n  ```\n")
	want := []tomlBlock{{2, "x = 1\n"}, {8, "  z = 2\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
