package conf

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the expected texts anew")

// env is the machine of all tests.
var env = Env{Hostname: "director1"}

// allRules returns the identifier of every rule that a file can break.
func allRules() []string {
	all := []string{"file/read", "file/toml", "file/repeated", "file/keepalived"}
	for _, b := range blocks() {
		all = append(all, b.name+"/unknown")
		for _, k := range keywords {
			if slices.Contains(k.blocks, b.name) {
				all = append(all, b.name+"/"+[]string{"instead", "noeffect"}[k.fate])
			}
		}
		for _, k := range b.keys {
			if b.shares(k) {
				continue // tested in the block it comes from
			}
			all = append(all, k.rules(b)...)
			if len(k.aliases) > 0 {
				all = append(all, b.name+"."+k.name+"/twice")
			}
		}
	}
	for _, r := range rules {
		all = append(all, r.id)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// borrowedRules returns the identifiers of rules that are tested where they come
// from: of the keys and keywords that a block borrows from another.
func borrowedRules() []string {
	var all []string
	for _, b := range blocks() {
		if b.borrows == "" {
			continue
		}
		for _, k := range b.keys {
			all = append(all, k.rules(b)...)
		}
		all = append(all, b.name+"/instead", b.name+"/noeffect")
	}
	return all
}

// corpusFile returns the file of the corpus that is about a rule.
func corpusFile(rule string) string { return strings.ReplaceAll(rule, "/", "-") + ".toml" }

// everything loads a file and returns all that is said about it, warnings of
// good files too.
func everything(t *testing.T, dir, name string) (*Config, Diagnostics) {
	t.Helper()
	c, diags := Load(os.DirFS(dir), name, env)
	if (c == nil) != diags.HasErrors() {
		t.Fatalf("%s: Load returned both a Config and errors, or neither", name)
	}
	if c != nil {
		if len(diags) > 0 {
			t.Fatalf("%s: a good configuration came with diagnostics beside its warnings", name)
		}
		diags = c.Warnings
	}
	return c, diags
}

// TestBadCorpus checks the exact text for every file in testdata/bad, and that
// each rule of the schema has a file that breaks it.
func TestBadCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil {
		t.Fatal(err)
	}
	needed := allRules()
	known := append(borrowedRules(), needed...)
	hit := map[string][]string{} // file: the rules it breaks
	for _, file := range append(files, "testdata/bad/file-read.toml") {
		name := filepath.Base(file)
		_, diags := everything(t, "testdata/bad", name)
		for _, d := range diags {
			if !slices.Contains(known, d.Rule) {
				t.Errorf("%s: rule %q is in no table", name, d.Rule)
			}
			hit[name] = append(hit[name], d.Rule)
		}
		if len(diags) == 0 {
			t.Errorf("%s: nothing is wrong with it; a good file belongs in testdata/good", name)
		}
		compareGolden(t, strings.TrimSuffix(file, ".toml")+".want", diags.Text())
	}
	for _, rule := range needed {
		if !slices.Contains(hit[corpusFile(rule)], rule) {
			t.Errorf("rule %s has no file: testdata/bad/%s must exist and break it", rule, corpusFile(rule))
		}
	}
}

// compareGolden compares text with a file, or writes the file with -update.
func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("%v; write it with go test -update and read it before you commit it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestGoodCorpus loads every file in testdata/good, compares what it means with
// the .want beside it, and what that prints with itself.
func TestGoodCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/good (%v)", err)
	}
	for _, file := range files {
		c, diags := everything(t, "testdata/good", filepath.Base(file))
		if c == nil || len(diags) > 0 {
			t.Errorf("%s is not good:\n%s", file, diags.Text())
			continue
		}
		compareGolden(t, strings.TrimSuffix(file, ".toml")+".want", c.TOML())
		checkRoundTrip(t, c)
	}
}
