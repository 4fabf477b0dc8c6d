package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"vipd/cmd/internal/daemon"
	"vipd/cmd/internal/logging"
)

// defaultConfig is the configuration file when no flag names one.
const defaultConfig = "/etc/vipd/vipd.toml"

// errSaid has no text: what there was to say is in the log.
var errSaid = errors.New("")

// runCommand is the daemon. hup gets every SIGHUP, from the start of the process on.
func runCommand(at *address, hup chan os.Signal) *cobra.Command {
	opts := daemon.Options{Version: version}
	var level, format string
	var ignored, watch bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon in the foreground",
		Long: "Run the daemon in the foreground. SIGHUP reads the configuration again; SIGTERM and SIGINT\n" +
			"give all addresses and services up and end it, a second one ends it at once.\n" +
			"With --observe it runs beside a keepalived, decides everything and tells what it would\n" +
			"do, and whether keepalived has done the same; it changes nothing and sends nothing.\n" +
			"Exit status: 0 stopped, 1 fatal error, 2 the configuration has errors.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			log, flush, err := logging.New(level, format)
			if err != nil {
				return &exitError{exitConfig, err}
			}
			defer flush()
			opts.Socket = at.given()
			sig := catch(hup)
			defer sig.release()
			opts.Ready = func() error {
				if sig.release() {
					return daemon.ErrAsked
				}
				return nil
			}
			if watch {
				err = daemon.Observe(sig.ctx, opts, sig.hup, log)
			} else {
				err = daemon.Run(sig.ctx, opts, sig.hup, sig.hurry, log)
			}
			if format == "json" {
				return logged(log, err)
			}
			var bad *daemon.ConfigError
			if errors.As(err, &bad) {
				return &exitError{exitConfig, fmt.Errorf("the configuration has errors\n%w", bad)}
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVarP(&opts.ConfigFile, "config", "c", defaultConfig, "configuration file")
	f.StringVarP(&opts.ConfigFile, "use-file", "f", defaultConfig, "the same, as keepalived spells it")
	f.StringVar(&opts.StateDir, "state-dir", "", "where the lock and the memory of what vipd added live (default /run/vipd, with instance or net_namespace /run/vipd-NAME)")
	f.BoolVar(&watch, "observe", false, "run beside keepalived, tell what would be done and do nothing (default socket that of --instance observe)")
	f.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&format, "log-format", "console", "console or json")
	for _, k := range []struct{ name, short string }{{"dont-fork", "n"}, {"log-console", "l"}, {"log-detail", "D"}} {
		f.BoolVarP(&ignored, k.name, k.short, false, "accepted for keepalived's habit, without effect")
	}
	return c
}

// logged writes why the daemon could not run to the log, of which a collector
// wants every line as JSON, and returns the exit code alone.
func logged(log *zap.Logger, err error) error {
	if err == nil {
		return nil
	}
	var bad *daemon.ConfigError
	if !errors.As(err, &bad) {
		log.Error("vipd cannot run", zap.NamedError("err", err))
		return &exitError{exitFailed, errSaid}
	}
	for _, d := range bad.Diagnostics {
		log.Error("the configuration has errors: " + d.Error())
	}
	return &exitError{exitConfig, errSaid}
}

// signals are those that the daemon answers.
type signals struct {
	ctx   context.Context // ends with the first SIGTERM or SIGINT
	hurry chan struct{}   // closed by the second
	hup   chan os.Signal  // gets every SIGHUP

	cancel context.CancelFunc
	term   chan os.Signal
	done   chan struct{}
	once   sync.Once
	wait   sync.WaitGroup
}

// catch takes the signals over; those for hup were already. They must be released.
func catch(hup chan os.Signal) *signals {
	s := &signals{hurry: make(chan struct{}), hup: hup, term: make(chan os.Signal, 2), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	signal.Notify(s.term, syscall.SIGTERM, syscall.SIGINT)
	// Nobody receives these: a log whose reader went away must not end the daemon.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s.wait.Go(func() {
		for n := 0; n < 2; n++ {
			select {
			case <-s.term:
			case <-s.done:
				return
			}
			if n == 0 {
				s.cancel()
			} else {
				close(s.hurry)
			}
		}
	})
	return s
}

// release leaves the signals to the system again, and reports whether one had asked
// to stop: SIGTERM and SIGINT then end the process, SIGHUP, for which there is nothing
// to read again yet, does nothing.
func (s *signals) release() (asked bool) {
	s.once.Do(func() {
		signal.Ignore(syscall.SIGHUP)
		signal.Stop(s.term) // what came before is in the channel now
		close(s.done)
		s.wait.Wait()
	})
	asked = s.ctx.Err() != nil || len(s.term) > 0
	s.cancel()
	return asked
}
