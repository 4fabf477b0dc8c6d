package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

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
		if within(p, "github.com/google/nftables") && s.dir != "vrrp/firewall" && s.dir != "ipvs/shield" {
			bad = append(bad, s.at(n)+": only vrrp/firewall and ipvs/shield speak to google/nftables")
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
