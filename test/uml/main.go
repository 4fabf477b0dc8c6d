package uml

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// EnvVipd names the vipd binary that tests start. Main passes it inside.
const EnvVipd = "VIPD_BIN"

// Main is for TestMain. Where the running kernel has IPVS and the modules, it
// runs the tests here. Elsewhere it runs this same test binary, with the same
// flags and in the same directory, inside User Mode Linux. It does not return.
func Main(m *testing.M, modules ...string) { os.Exit(Code(m, 1, modules...)) }

// Code is Main for callers with something to do afterwards: it returns the exit
// status. The tests are spread over up to so many guests that run at once, no
// more than there are processors.
func Code(m *testing.M, guests int, modules ...string) int {
	flag.Parse()
	if Inside() || hostHas(append(usualModules(), modules...)) {
		return m.Run()
	}
	if raceEnabled {
		return failed("uml: a binary built with -race does not run in User Mode Linux, and this kernel has no IPVS; test this package without -race")
	}
	code, err := rerun(guests, modules)
	if err != nil {
		return failed(err.Error())
	}
	return code
}

// failed is the result of a test binary that could not test.
func failed(msg string) int {
	fmt.Fprintln(os.Stderr, msg)
	fmt.Println("FAIL")
	return 1
}

// rerun runs this binary inside.
func rerun(guests int, modules []string) (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("uml: finding the test binary: %w", err)
	}
	share := append(outputDirs(), filepath.Dir(exe))
	if bin := os.Getenv(EnvVipd); bin != "" {
		share = append(share, filepath.Dir(bin))
	}
	shards, err := split(exe, os.Args[1:], guests)
	if err != nil {
		return 0, err
	}
	return runShards(exe, shards, Options{
		Modules: modules,
		Share:   share,
		Timeout: testTimeout() + 30*time.Second, // the tests' own timeout comes first, with its stacks
	})
}

// testTimeout is the value of -test.timeout, bounded even when that is "none".
func testTimeout() time.Duration {
	if f := flag.Lookup("test.timeout"); f != nil {
		if d, err := time.ParseDuration(f.Value.String()); err == nil && d > 0 {
			return d
		}
	}
	return time.Hour
}

// outputDirs are the directories that the flags of the test binary write to
// (coverage, profiles, the log of files read).
func outputDirs() []string {
	outdir := "."
	if f := flag.Lookup("test.outputdir"); f != nil && f.Value.String() != "" {
		outdir = f.Value.String()
	}
	isDir := []string{"test.outputdir", "test.gocoverdir"}
	isFile := []string{"test.testlogfile", "test.coverprofile", "test.cpuprofile", "test.memprofile", "test.blockprofile", "test.mutexprofile", "test.trace"}
	var dirs []string
	flag.Visit(func(f *flag.Flag) {
		p := f.Value.String()
		switch {
		case p == "":
		case slices.Contains(isDir, f.Name):
			dirs = append(dirs, p)
		case slices.Contains(isFile, f.Name):
			if !filepath.IsAbs(p) {
				p = filepath.Join(outdir, p)
			}
			dirs = append(dirs, filepath.Dir(p))
		}
	})
	return dirs
}

// HostHasIPVS reports whether the running kernel has, or can load, IPVS and what
// a site of namespaces needs.
func HostHasIPVS() bool { return hostHas(usualModules()) }

// hostHas reports whether the running kernel has, or can load, all modules.
func hostHas(modules []string) bool {
	for _, name := range modules {
		if loaded(name) {
			continue
		}
		if exec.Command("modprobe", "-q", name).Run() != nil {
			return false
		}
	}
	return loaded("ip_vs")
}

// loaded reports whether a module is in the kernel, built in or loaded.
func loaded(name string) bool {
	if name == "ip_vs" {
		_, err := os.Stat("/proc/net/ip_vs")
		return err == nil
	}
	_, err := os.Stat("/sys/module/" + strings.ReplaceAll(name, "-", "_"))
	return err == nil
}
