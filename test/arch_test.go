// Package test holds what is checked on the tree as a whole. The tests of this
// file keep the architecture: who may import whom, where goroutines may start,
// that everything exported is explained, and that files stay readable.
package test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 450
	maxFunctionLines = 80
)

// source is one Go file of the tree.
type source struct {
	name string // path from the root, with slashes
	dir  string // its package's path from the root
	text string
	fset *token.FileSet
	ast  *ast.File
}

func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// at says where in the tree a node is.
func (s *source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.name, s.fset.Position(n.Pos()).Line)
}

// imports are the paths that a file imports, with the place.
func (s *source) imports() map[string]ast.Node {
	m := map[string]ast.Node{}
	for _, i := range s.ast.Imports {
		m[strings.Trim(i.Path.Value, `"`)] = i
	}
	return m
}

// parse makes a source of text; the name decides which rules apply.
func parse(name, text string) (*source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	dir, _ := filepath.Split(name)
	return &source{name: name, dir: strings.TrimSuffix(dir, "/"), text: text, fset: fset, ast: f}, nil
}

// tree reads every Go file below the root.
func tree(t *testing.T) []*source {
	t.Helper()
	var list []*source
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		b, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			return err
		}
		s, err := parse(path, string(b))
		if err != nil {
			return err
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// pure are the packages that do no I/O, start nothing, read no clock, log nothing.
func pure(dir string) bool {
	list := []string{"vrrp", "vrrp/packet", "vrrp/host/fib", "garp", "ipvs", "ipvs/plan", "healthcheck", "conf"}
	return slices.Contains(list, dir) || strings.HasPrefix(dir, "conf/")
}

// Only packages where nothing can race are tested without the race detector.
func TestOnlyPurePackagesGoWithoutRaceDetector(t *testing.T) {
	b, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^PURE\s*=(.*)$`).FindSubmatch(b)
	if line == nil {
		t.Fatal("the Makefile has no list PURE")
	}
	for _, dir := range strings.Fields(string(line[1])) {
		if dir = strings.TrimPrefix(dir, "./"); !pure(dir) && dir != "vrrp/packet/vectors" { // captured frames
			t.Errorf("the Makefile calls %s pure", dir)
		}
	}
}

// The top level is fixed: all Go code lies in seven folders.
func TestTopLevel(t *testing.T) {
	allowed := strings.Fields("cmd vrrp ipvs garp healthcheck conf test docs packaging go.mod go.sum Makefile LICENSE README.md CONTRIBUTING.md CHANGELOG.md " +
		"bin .ci .git .gitignore .gitattributes coverage.out") // the last ones are not of the tree, or of its keeping
	list, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s does not belong into the root", e.Name())
		}
	}
}

// mayStart are the packages in which goroutines may be started: they own and
// await them.
func mayStart(dir string) bool {
	list := []string{"vrrp/router", "vrrp/socket", "vrrp/host", "vrrp/track", "vrrp/firewall", "garp/engine", "ipvs/reconcile", "ipvs/connsync", "healthcheck/run", "healthcheck/checktest"}
	return slices.Contains(list, dir) || within(dir, "cmd") || within(dir, "test") || within(dir, "vrrp/track")
}

// within reports whether dir is root or below it.
func within(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

// domain is the part of the product that a package belongs to, "" for none.
func domain(dir string) string {
	top, _, _ := strings.Cut(dir, "/")
	if slices.Contains([]string{"vrrp", "garp", "ipvs", "healthcheck"}, top) {
		return top
	}
	return ""
}

// own is the path of one of the tree's packages within the tree.
func own(path string) (string, bool) { return strings.CutPrefix(path, "vipd/") }

func TestArchitecture(t *testing.T) {
	sources := tree(t)
	for name, r := range rules() {
		t.Run(name, func(t *testing.T) {
			for _, s := range sources {
				for _, b := range r(s) {
					t.Error(b)
				}
			}
		})
	}
}

// Only the composition root knows more than one domain.
func TestOneCompositionRoot(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, s := range tree(t) {
		if !within(s.dir, "cmd") || s.isTest() {
			continue
		}
		for p := range s.imports() {
			if to, ok := own(p); ok && domain(to) != "" {
				if known[s.dir] == nil {
					known[s.dir] = map[string]bool{}
				}
				known[s.dir][domain(to)] = true
			}
		}
	}
	for dir, domains := range known {
		if len(domains) > 1 && !within(dir, "cmd/internal/daemon") {
			t.Errorf("%s imports %d domains; only cmd/internal/daemon joins them", dir, len(domains))
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range tree(t) {
		if s.isTest() && !strings.HasSuffix(s.name, "arch_test.go") {
			continue
		}
		documented[s.dir] = documented[s.dir] || s.ast.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment", dir)
		}
	}
}

// Nothing in the tree may depend on the machine it was written on.
func TestNoMachinePaths(t *testing.T) {
	machine := regexp.MustCompile(`/wor[k]/|/home/\w+/|/Users/\w+|\.\./share[d]`)
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == ".git" || path == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || path == "test/arch_test.go" || path == ".git" { // a file in a worktree
			return nil
		}
		b, err := os.ReadFile(filepath.Join("..", path))
		if err != nil {
			return err
		}
		if m := machine.Find(b); m != nil {
			t.Errorf("%s: mentions %s", path, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
