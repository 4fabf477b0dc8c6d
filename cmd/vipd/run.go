package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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

func runCommand(socket *string) *cobra.Command {
	opts := daemon.Options{Version: version}
	var level, format string
	var ignored bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the daemon in the foreground",
		Long: "Run the daemon in the foreground. SIGHUP reads the configuration again; SIGTERM and SIGINT\n" +
			"give all addresses and services up and end it, a second one ends it at once.\n" +
			"Exit status: 0 stopped, 1 fatal error, 2 the configuration has errors.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			log, flush, err := logging.New(level, format)
			if err != nil {
				return &exitError{exitConfig, err}
			}
			defer flush()
			opts.Socket = *socket
			ctx, hurry, hup, stop := signals()
			defer stop()
			err = daemon.Run(ctx, opts, hup, hurry, log)
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
	f.StringVar(&opts.StateDir, "state-dir", "/run/vipd", "where the lock and the memory of what vipd added live")
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

// signals returns a context that ends with the first SIGTERM or SIGINT, a
// channel that is closed by the second, and one that gets every SIGHUP.
func signals() (ctx context.Context, hurry chan struct{}, hup chan os.Signal, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	hurry = make(chan struct{})
	hup = make(chan os.Signal, 1)
	term := make(chan os.Signal, 2)
	signal.Notify(hup, syscall.SIGHUP)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	done := make(chan struct{})
	go func() {
		for n := 0; n < 2; n++ {
			select {
			case <-term:
			case <-done:
				return
			}
			if n == 0 {
				cancel()
			} else {
				close(hurry)
			}
		}
	}()
	return ctx, hurry, hup, func() { signal.Stop(hup); signal.Stop(term); close(done); cancel() }
}
