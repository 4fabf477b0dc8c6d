package test

import (
	"strings"
	"testing"
)

// Each rule is seen to find what it is for, and to leave its twin alone.
func TestRulesCanFail(t *testing.T) {
	long := func(lines int) string { return strings.Repeat("\t_ = 0\n", lines) }
	for _, c := range []struct {
		rule      string
		file      string
		bad, good string
	}{
		{"imports of pure packages", "vrrp/a.go", `import "net"`, `import "net/netip"`},
		{"imports of pure packages", "conf/x/a.go", `import "golang.org/x/sys/unix"`, `import "io/fs"`},
		{"imports of pure packages", "ipvs/plan/a.go", `import "go.uber.org/zap"`, `import "slices"`},
		{"time in pure packages", "garp/a.go", "import \"time\"\nfunc f() { _ = time.Now() }", "import \"time\"\nfunc f(now time.Time) { _ = now.Add(time.Second) }"},
		{"domains", "vrrp/router/a.go", `import "vipd/garp"`, `import "vipd/vrrp/packet"`},
		{"domains", "garp/engine/a.go", `import "vipd/conf"`, `import "vipd/garp"`},
		{"domains", "conf/a.go", `import "vipd/ipvs"`, `import "strconv"`},
		{"domains", "cmd/internal/daemon/a.go", `import "vipd/test/lab"`, `import "vipd/vrrp"`},
		{"libraries", "ipvs/reconcile/a.go", `import "github.com/cloudflare/ipvs"`, `import "vipd/ipvs"`},
		{"libraries", "garp/a.go", `import "github.com/google/gopacket/pcap"`, `import "github.com/google/gopacket/layers"`},
		{"goroutines", "ipvs/netlink/a.go", `func f() { go f() }`, `func f() { f() }`},
		{"goroutines", "conf/a.go", "import \"sync\"\nfunc f(w *sync.WaitGroup) { w.Go(nil) }", "import \"sync\"\nfunc f(w *sync.WaitGroup) { w.Wait() }"},
		{"endings", "garp/engine/a.go", "import \"os\"\nfunc f() { os.Exit(1) }", "import \"os\"\nfunc f() { os.Getpid() }"},
		{"doc comments", "garp/a.go", `func Exported() {}`, "// Exported is explained.\nfunc Exported() {}"},
		{"doc comments", "garp/a.go", `type T struct{}`, `type t struct{}`},
		{"sizes", "garp/a.go", "func f() {\n" + long(maxFunctionLines) + "}", "func f() {\n" + long(maxFunctionLines-2) + "}"},
		{"sizes", "garp/a.go", strings.Repeat("// x\n", maxFileLines), strings.Repeat("// x\n", maxFileLines-3)},
		{"variables", "garp/a.go", `var count int`, "import \"errors\"\nvar errGone = errors.New(\"gone\")"},
		{"variables", "garp/a.go", `var errCount error`, `var ErrGone = other.ErrGone`},
		{"variables", "garp/a.go", `var start = other.Thing`, `var names = map[int]string{1: "one"}`},
	} {
		for want, text := range map[int]string{1: c.bad, 0: c.good} {
			s, err := parse(c.file, "package p\n\n"+text+"\n")
			if err != nil {
				t.Fatalf("%s: %v", c.rule, err)
			}
			if got := rules()[c.rule](s); len(got) != want {
				t.Errorf("rule %q on %q says %q, want %d objections", c.rule, text, got, want)
			}
		}
	}
}
