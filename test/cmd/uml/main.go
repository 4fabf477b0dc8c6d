// Command uml runs a command inside User Mode Linux, a kernel with IPVS:
//
//	go run ./test/cmd/uml [-i] [-mod NAME,NAME] [-mem 1G] [-t 10m] [-share DIR,DIR] [--] COMMAND [ARGUMENT…]
//
// The host's files are read-only inside but for the shared directories; the
// exit status is the command's. With -i the terminal is the guest's console.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"vipd/test/uml"
)

func main() {
	interactive := flag.Bool("i", false, "use this terminal as the guest's console")
	modules := flag.String("mod", "", "kernel modules to load besides the usual ones, comma-separated")
	memory := flag.String("mem", "1G", "memory of the guest")
	limit := flag.Duration("t", 10*time.Minute, "end the guest after this time")
	share := flag.String("share", "", "host directories to keep writable, comma-separated")
	flag.Parse()
	code, err := uml.Run(context.Background(), flag.Args(), uml.Options{
		Modules:     words(*modules),
		Share:       words(*share),
		Memory:      *memory,
		Timeout:     *limit,
		Interactive: *interactive,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(125)
	}
	os.Exit(code)
}

// words splits a comma-separated list.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}
