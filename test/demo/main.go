// Command demo shows vipd at work on a real kernel, within 90 seconds: a switch,
// a client, two directors that share two virtual addresses active-active, and
// three real servers behind LVS-DR, all in network namespaces of this machine.
// One director dies and comes back, then one real server; another one is drained.
// What the client saw is measured from packets and shown in a table.
//
//	go run ./test/demo          the show
//	go run ./test/demo -shell   the same site, and a shell in it
//
// Where this machine's kernel has no IPVS, all of it runs inside User Mode
// Linux. VIPD_BIN names the vipd binary; without it one is built.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vipd/test/lab"
	"vipd/test/uml"
)

func main() {
	shell := flag.Bool("shell", false, "leave a shell in the site instead of the show")
	flag.Parse()
	code, err := run(*shell)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		code = 1
	}
	os.Exit(code)
}

// run makes sure that there is a binary and a kernel with IPVS, then plays.
func run(shell bool) (int, error) {
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("network namespaces need root; run this as root")
	}
	bin := os.Getenv(uml.EnvVipd)
	if bin == "" {
		dir, err := os.MkdirTemp("", "vipd-demo-")
		if err != nil {
			return 0, fmt.Errorf("making a directory for vipd: %w", err)
		}
		defer os.RemoveAll(dir)
		bin = filepath.Join(dir, "vipd")
		fmt.Println("building vipd …")
		if err := lab.Build(bin); err != nil {
			return 0, err
		}
		if err := os.Setenv(uml.EnvVipd, bin); err != nil {
			return 0, fmt.Errorf("naming the binary: %w", err)
		}
	}
	if uml.Inside() || uml.HostHasIPVS() {
		return play(shell), nil
	}
	return inside(bin, shell)
}

// inside runs this very program in the user-mode kernel.
func inside(bin string, shell bool) (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding this program: %w", err)
	}
	fmt.Println("this kernel has no IPVS: booting User Mode Linux …")
	limit := 3 * time.Minute
	if shell {
		limit = 24 * time.Hour
	}
	return uml.Run(context.Background(), append([]string{exe}, os.Args[1:]...), uml.Options{
		Share: []string{filepath.Dir(exe), filepath.Dir(bin)}, Timeout: limit, Interactive: shell,
	})
}

// play runs the show or the shell on this kernel.
func play(shell bool) (code int) {
	s := newStage()
	defer func() {
		if r := recover(); r != nil {
			if _, failed := r.(lab.Failure); !failed {
				s.Close()
				panic(r)
			}
		}
		s.Close()
		if s.Failed() {
			code = 1
		}
	}()
	site := build(s)
	if shell {
		site.shell()
	} else {
		site.show()
	}
	return 0
}
