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
	list := []string{"vrrp", "vrrp/packet", "vrrp/host/fib", "garp", "ipvs", "ipvs/plan", "healthcheck", "conf", "internal/checksum"}
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

// A rule looks at one file and says what is wrong with it.
type rule func(*source) []string

// pureImports: packages marked pure import nothing that touches the world.
func pureImports(s *source) (bad []string) {
	if !pure(s.dir) || s.isTest() {
		return nil
	}
	banned := func(p string) bool {
		if slices.Contains([]string{"net", "os", "syscall", "log", "math/rand", "testing"}, p) {
			return true
		}
		for _, root := range []string{"net/http", "os/exec", "log/slog", "golang.org/x/sys", "golang.org/x/net", "go.uber.org/zap",
			"github.com/vishvananda", "github.com/mdlayher", "github.com/cloudflare"} {
			if within(p, root) {
				return true
			}
		}
		return false
	}
	for p, n := range s.imports() {
		if banned(p) {
			bad = append(bad, s.at(n)+": a pure package imports "+p)
		}
	}
	return bad
}

// pureTime: in packages marked pure the time is a parameter.
func pureTime(s *source) (bad []string) {
	if !pure(s.dir) || s.isTest() {
		return nil
	}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, sel.Sel.Name) {
				bad = append(bad, s.at(n)+": a pure package uses time."+sel.Sel.Name+"; take the time as a parameter")
			}
		}
		return true
	})
	return bad
}

// domains: they know neither each other nor the configuration nor the command.
func domains(s *source) (bad []string) {
	if s.isTest() {
		return nil
	}
	mine := domain(s.dir)
	for p, n := range s.imports() {
		to, ok := own(p)
		switch {
		case !ok:
		case within(to, "test") && !within(s.dir, "test"):
			bad = append(bad, s.at(n)+": the product imports test code, "+p)
		case mine != "" && (within(to, "conf") || within(to, "cmd")):
			bad = append(bad, s.at(n)+": a domain package imports "+p)
		case mine != "" && domain(to) != "" && domain(to) != mine:
			bad = append(bad, s.at(n)+": "+mine+" imports "+p+"; only cmd/internal/daemon joins domains")
		case within(s.dir, "internal") && (domain(to) != "" || within(to, "conf") || within(to, "cmd")):
			bad = append(bad, s.at(n)+": what lies below the domains imports "+p)
		case within(s.dir, "conf") && (domain(to) != "" || within(to, "cmd")):
			bad = append(bad, s.at(n)+": conf imports "+p)
		}
	}
	return bad
}

// libraries: some have one place where they may be used.
func libraries(s *source) (bad []string) {
	if s.isTest() || within(s.dir, "test") {
		return nil
	}
	for p, n := range s.imports() {
		if within(p, "github.com/cloudflare/ipvs") && s.dir != "ipvs/netlink" {
			bad = append(bad, s.at(n)+": only ipvs/netlink speaks to cloudflare/ipvs")
		}
		if within(p, "github.com/google/nftables") && s.dir != "vrrp/firewall" && s.dir != "ipvs/shield" && s.dir != "internal/nft" {
			bad = append(bad, s.at(n)+": only internal/nft, vrrp/firewall and ipvs/shield speak to google/nftables")
		}
		if p == "github.com/google/gopacket/afpacket" || p == "github.com/google/gopacket/pcap" || p == "C" || p == "plugin" {
			bad = append(bad, s.at(n)+": "+p+" needs cgo; the binary is static")
		}
	}
	return bad
}

// goroutines start only in packages that own them.
func goroutines(s *source) (bad []string) {
	if s.isTest() || mayStart(s.dir) {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad = append(bad, s.at(n)+": a goroutine starts in a package that may not start any")
		case *ast.CallExpr: // WaitGroup.Go, errgroup.Group.Go
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" {
				bad = append(bad, s.at(n)+": a goroutine starts in a package that may not start any")
			}
		}
		return true
	})
	return bad
}

// endings: only the command ends the process; nothing panics on purpose.
func endings(s *source) (bad []string) {
	if s.isTest() || within(s.dir, "test") || s.dir == "cmd/vipd" {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "os" && sel.Sel.Name == "Exit" || x.Name == "log" && strings.HasPrefix(sel.Sel.Name, "Fatal")) {
			bad = append(bad, s.at(n)+": only cmd/vipd ends the process")
		}
		return true
	})
	return bad
}

// comments: every exported name says what it is.
func comments(s *source) (bad []string) {
	if s.isTest() || s.ast.Name.Name == "main" {
		return nil
	}
	miss := func(n ast.Node, name string) {
		bad = append(bad, s.at(n)+": "+name+" has no doc comment")
	}
	for _, d := range s.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				miss(d, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
					miss(ts, ts.Name.Name)
				}
				if vs, ok := spec.(*ast.ValueSpec); ok && vs.Names[0].IsExported() && d.Doc == nil && vs.Doc == nil && vs.Comment == nil {
					miss(vs, vs.Names[0].Name)
				}
			}
		}
	}
	return bad
}

// exportedReceiver reports whether a function has no receiver or an exported one.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}

// sizes keep files and functions readable.
func sizes(s *source) (bad []string) {
	limitFile, limitFunc := maxFileLines, maxFunctionLines
	if s.isTest() { // tables and scenarios are long without being hard
		limitFile, limitFunc = 2*maxFileLines, 2*maxFunctionLines
	}
	if n := strings.Count(s.text, "\n"); n > limitFile {
		bad = append(bad, fmt.Sprintf("%s: %d lines, at most %d", s.name, n, limitFile))
	}
	for _, d := range s.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > limitFunc {
				bad = append(bad, fmt.Sprintf("%s: function %s has %d lines, at most %d", s.at(f), f.Name.Name, n, limitFunc))
			}
		}
	}
	return bad
}

// variables of a package are tables, sentinel errors and the like, never state.
func variables(s *source) (bad []string) {
	if s.isTest() {
		return nil
	}
	for _, d := range s.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			vs := spec.(*ast.ValueSpec)
			for i, name := range vs.Names {
				if embedded := g.Doc != nil && strings.Contains(docText(g.Doc), "//go:embed"); embedded || name.Name == "_" {
					continue
				}
				sentinel := strings.HasPrefix(strings.ToLower(name.Name), "err") && i < len(vs.Values)
				if !sentinel && (i >= len(vs.Values) || !constantLike(vs.Values[i])) {
					bad = append(bad, s.at(vs)+": package-level variable "+name.Name+"; only tables and sentinel errors may be one")
				}
			}
		}
	}
	return bad
}

// docText is a comment with its directives, which CommentGroup.Text leaves out.
func docText(g *ast.CommentGroup) string {
	var lines []string
	for _, c := range g.List {
		lines = append(lines, c.Text)
	}
	return strings.Join(lines, "\n")
}

// constantLike reports whether an initial value is a table, an error, a compiled
// expression or a parsed literal.
func constantLike(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CompositeLit, *ast.BasicLit:
		return true
	case *ast.UnaryExpr:
		return constantLike(e.X)
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return true // a function of the package that builds a table, or a conversion
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && (x.Name == "errors" || x.Name == "fmt" || x.Name == "strings" || x.Name == "gopacket" || x.Name == "netip" ||
			strings.HasPrefix(sel.Sel.Name, "Must"))
	}
	return false
}

// rules are all of them, by name.
func rules() map[string]rule {
	return map[string]rule{"imports of pure packages": pureImports, "time in pure packages": pureTime, "domains": domains, "libraries": libraries,
		"goroutines": goroutines, "endings": endings, "doc comments": comments, "sizes": sizes, "variables": variables}
}

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
