// Command vipd keeps virtual IP addresses and IPVS services alive on LVS
// directors. See `vipd --help`.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"vipd/cmd/internal/control"
)

// version is set by the linker (Makefile).
var version = "devel"

// Exit codes of the commands.
const (
	exitOK         = 0
	exitFailed     = 1 // fatal error, refused request
	exitConfig     = 2 // the configuration has errors
	exitNotRunning = 3 // vipd status: no daemon
)

// complainWait is how long the last message may take.
const complainWait = time.Second

// exitError carries an exit code with an error to print.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func main() {
	// Before anything else: a SIGHUP that finds nobody to take it ends the process, and
	// a script may send one to a daemon that has just been started.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	os.Exit(run(os.Args[1:], hup))
}

// run runs a command. hup gets every SIGHUP, of which only the daemon makes use.
func run(args []string, hup chan os.Signal) int {
	root := newRoot(hup)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	if msg := err.Error(); msg != "" {
		complain("vipd: " + msg)
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return exitFailed
}

// complain prints a message for at most complainWait: a daemon whose log nobody
// reads (a full pipe) must end all the same.
func complain(msg string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fmt.Fprintln(os.Stderr, msg)
	}()
	select {
	case <-done:
	case <-time.After(complainWait):
	}
}

// address is how a command finds the daemon, or the daemon where to listen.
type address struct{ socket, instance string }

// given is the socket that was named, by flag or environment; "": none was.
func (a *address) given() string {
	if a.socket != "" {
		return a.socket
	}
	return os.Getenv("VIPD_SOCKET")
}

// path is the socket of the daemon that a command is for.
func (a *address) path() string {
	switch {
	case a.socket != "":
		return a.socket
	case a.instance != "":
		return control.SocketOf(a.instance)
	}
	return cmp.Or(a.given(), control.SocketOf(""))
}

// flag gives a command that talks to a daemon the flag --instance.
func (a *address) flag(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&a.instance, "instance", "", "the daemon with this name: its instance, or net_namespace, or NET_NAMESPACE-INSTANCE")
	return c
}

// leaveHangup has SIGHUP end the process, as it ends any other command: one that came
// before is sent again.
func leaveHangup(hup chan os.Signal) error {
	signal.Reset(syscall.SIGHUP)
	if len(hup) == 0 {
		return nil
	}
	return syscall.Kill(os.Getpid(), syscall.SIGHUP)
}

func newRoot(hup chan os.Signal) *cobra.Command {
	root := &cobra.Command{
		Use:           "vipd",
		Short:         "Virtual IPs and IPVS services that stay up: VRRP, GARP/NA, health checks",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	var at address
	root.PersistentFlags().StringVar(&at.socket, "socket", "", "control socket (also VIPD_SOCKET; default "+control.SocketOf("")+")")
	daemon := runCommand(&at, hup)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if c == daemon {
			return nil
		}
		return leaveHangup(hup)
	}
	root.AddCommand(daemon, checkCommand(), spreadCommand(), statusCommand(&at), reloadCommand(&at),
		&cobra.Command{
			Use: "version", Short: "Print the version", Args: cobra.NoArgs,
			Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), "vipd "+version) },
		})
	root.AddCommand(aboutServers(&at)...)
	return root
}
