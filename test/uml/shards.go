package uml

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// shard is the part of a package's tests that one guest runs.
type shard struct {
	args   []string // of the test binary
	out    bytes.Buffer
	log    string // its own -test.testlogfile, "" for none
	code   int
	failed error
}

// split says which arguments the test binaries of up to n guests get: every n-th
// test is for the same one. Whatever is about a single process (profiles,
// coverage, benchmarks, fuzzing, lists) and whatever cannot be split stays in one.
func split(exe string, args []string, n int) ([]*shard, error) {
	whole := []*shard{{args: args}}
	if n = min(n, runtime.NumCPU()); n < 2 || len(outputDirs()) > len(testLog()) {
		return whole, nil
	}
	if flagValue("test.parallel") == "1" {
		return whole, nil // one at a time, as measurements are made
	}
	for _, name := range []string{"test.bench", "test.fuzz", "test.list"} {
		if flagValue(name) != "" {
			return whole, nil
		}
	}
	tests, err := list(exe, args)
	if err != nil {
		return nil, err
	}
	n = min(n, len(tests))
	if n < 2 {
		return whole, nil
	}
	shards := make([]*shard, n)
	for i := range shards {
		var others []string
		for k, name := range tests {
			if k%n != i {
				others = append(others, regexp.QuoteMeta(name))
			}
		}
		skip := "^(" + strings.Join(others, "|") + ")$"
		if own := flagValue("test.skip"); own != "" {
			skip = own + "|" + skip
		}
		// The last one of a flag holds.
		shards[i] = &shard{args: append(slices.Clone(args), "-test.skip="+skip)}
	}
	return shards, nil
}

// list asks the test binary for the names of its tests that -test.run takes.
func list(exe string, args []string) ([]string, error) {
	pattern := flagValue("test.run")
	if first, _, more := strings.Cut(pattern, "/"); more && strings.Contains(pattern, "|") {
		pattern = "" // too intricate; whoever gets a test that does not match does not run it
	} else {
		pattern = first
	}
	cmd := exec.Command(exe, append(slices.Clone(args), "-test.list="+cmp.Or(pattern, "."), "-test.testlogfile=")...)
	cmd.Env = append(os.Environ(), EnvInside+"=1") // it must not boot a guest for that
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("uml: listing the tests: %w", err)
	}
	var tests []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "Test") || strings.HasPrefix(line, "Example") {
			tests = append(tests, line)
		}
	}
	return tests, nil
}

// flagValue is the value of a flag of the test binary, "" when it is not given.
func flagValue(name string) string {
	if f := flag.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// testLog is the directory of the log from which go test learns what a cached
// result depends on.
func testLog() []string {
	if file := flagValue("test.testlogfile"); file != "" {
		return []string{filepath.Dir(file)}
	}
	return nil
}

// runShards runs each shard in a guest of its own, all at once, and prints their
// output one after the other, with one verdict: what reads the output sees one
// test binary. The first one's comes while it runs.
func runShards(exe string, shards []*shard, o Options) (int, error) {
	if len(shards) == 1 {
		return Run(context.Background(), append([]string{exe}, shards[0].args...), o)
	}
	if file := flagValue("test.testlogfile"); file != "" {
		for i, s := range shards {
			s.log = fmt.Sprintf("%s.%d", file, i)
			s.args = append(s.args, "-test.testlogfile="+s.log)
		}
		defer joinLogs(file, shards)
	}
	first := &verdictless{out: os.Stdout, prefix: prefix()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for i, s := range shards {
		wg.Go(func() {
			o := o
			o.Nth, o.Stdout = i, &s.out
			if i == 0 {
				o.Stdout = first
			}
			s.code, s.failed = Run(ctx, append([]string{exe}, s.args...), o)
		})
	}
	wg.Wait()
	first.flush()
	code := shards[0].code
	errs := []error{shards[0].failed}
	for i, s := range shards[1:] {
		rest := &verdictless{out: os.Stdout, prefix: prefix()}
		_, err := io.Copy(rest, &s.out)
		rest.flush()
		code = max(code, s.code)
		if s.failed != nil {
			s.failed = fmt.Errorf("guest %d of %d: %w", i+2, len(shards), s.failed)
		}
		errs = append(errs, s.failed, err)
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	verdict := "PASS"
	if code != 0 {
		verdict = "FAIL"
	}
	fmt.Println(prefix() + verdict)
	return code, nil
}

// joinLogs makes one log of what the shards have read.
func joinLogs(file string, shards []*shard) {
	const head = "# test log\n"
	all := []byte(head)
	for _, s := range shards {
		b, err := os.ReadFile(s.log)
		if err != nil {
			return // without a log the result is not cached, which is right
		}
		all = append(all, bytes.TrimPrefix(b, []byte(head))...)
		_ = os.Remove(s.log) // it is in go test's own temporary directory
	}
	_ = os.WriteFile(file, all, 0o644) // as above: no log, no cache
}

// verdictless passes on all lines but the last word of a test binary, PASS or
// FAIL: it is one shard's only.
type verdictless struct {
	out    io.Writer
	prefix string // of the verdict
	line   []byte // not yet ended, or what may be the verdict
}

// Write implements io.Writer.
func (v *verdictless) Write(p []byte) (int, error) {
	v.line = append(v.line, p...)
	end := bytes.LastIndexByte(v.line, '\n') + 1
	if start := bytes.LastIndexByte(v.line[:max(0, end-1)], '\n') + 1; v.verdict(v.line[start:]) {
		end = start // unless more comes
	}
	_, err := v.out.Write(v.line[:end])
	v.line = append(v.line[:0], v.line[end:]...)
	return len(p), err
}

// verdict reports whether what is left is the last word and nothing else.
func (v *verdictless) verdict(rest []byte) bool {
	return slices.Contains([]string{v.prefix + "PASS\n", v.prefix + "FAIL\n"}, string(rest))
}

// flush passes on a last line without an end.
func (v *verdictless) flush() {
	if len(v.line) > 0 && !v.verdict(v.line) {
		// An output that cannot be written has nobody to tell.
		_, _ = v.out.Write(append(v.line, '\n'))
	}
	v.line = nil
}

// prefix begins the lines of a test binary itself in the form for test2json.
func prefix() string {
	if flagValue("test.v") == "test2json" {
		return "\x16"
	}
	return ""
}
