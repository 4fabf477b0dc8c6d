package test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCasesAreListed: each of the public failure reports O01–O34 has a test of its name, and docs/acceptance.md names
// every such test of test/cases and test/kernel, and none that is not there.
func TestCasesAreListed(t *testing.T) {
	doc, err := os.ReadFile("../docs/acceptance.md")
	if err != nil {
		t.Fatal(err)
	}
	there, all := map[string]bool{}, ""
	for _, pattern := range []string{"cases/*_test.go", "kernel/*_test.go", "../*/*_test.go", "../*/*/*_test.go", "../*/*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (TestO\d\d\w*)\(`).FindAllStringSubmatch(string(text), -1) {
				there[m[1]] = true
				all += m[1] + "\n"
				if !strings.HasPrefix(pattern, "..") && !strings.Contains(string(doc), "`"+m[1]+"`") {
					t.Errorf("docs/acceptance.md does not name %s of %s", m[1], file)
				}
			}
		}
	}
	for _, m := range regexp.MustCompile("`(TestO\\d\\d\\w*)`").FindAllStringSubmatch(string(doc), -1) {
		if !there[m[1]] {
			t.Errorf("docs/acceptance.md names %s, which is not there", m[1])
		}
	}
	for n := 1; n <= 34; n++ {
		if name := fmt.Sprintf("O%02d", n); !strings.Contains(all, "Test"+name) || !strings.Contains(string(doc), "| "+name+" |") {
			t.Errorf("%s has no test, or no line in docs/acceptance.md", name)
		}
	}
}
