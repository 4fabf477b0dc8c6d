package daemon

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"time"

	"vipd/cmd/internal/script"
	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/filecheck"
	"vipd/healthcheck/misccheck"
	"vipd/vrrp/track"
	"vipd/vrrp/track/process"
)

// machine is what checks need that ask this machine: programs to run, files that
// others watch.
type machine struct {
	places *misccheck.Places
	read   func() []track.FileStatus // what the track files say
	again  func(keys []string)       // has checks run at once

	mu     sync.Mutex // guards all following fields
	global conf.Global
	files  map[string][]string // by the name of a track file, the keys of the checks that look at it
}

func newMachine() *machine {
	return &machine{
		places: misccheck.NewPlaces(1),
		read:   func() []track.FileStatus { return nil },
		again:  func([]string) {},
	}
}

// localCheckers are the kinds of check that need this machine.
var localCheckers = map[string]func(*machine, *conf.Check) (key string, c healthcheck.Checker, err error){
	"MISC_CHECK": (*machine).program,
	"FILE_CHECK": (*machine).file,
}

// checker makes the checker of a check, whatever its kind.
func (m *machine) checker(c *conf.Check) (string, healthcheck.Checker, error) {
	if local := localCheckers[c.Kind]; local != nil {
		return local(m, c)
	}
	return checkers[c.Kind](c)
}

// configure takes what a configuration says about programs, before its checks are made.
func (m *machine) configure(g conf.Global) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.global = g
	m.places.Limit(g.MaxProcesses)
}

// watch notes which checks look at which file.
func (m *machine) watch(files map[string][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files = files
}

// FileChanged has the checks run that look at this file. It does not block.
func (m *machine) FileChanged(name string) {
	m.mu.Lock()
	keys := m.files[name]
	m.mu.Unlock()
	if len(keys) > 0 {
		m.again(keys)
	}
}

// program makes a MISC_CHECK.
func (m *machine) program(c *conf.Check) (string, healthcheck.Checker, error) {
	m.mu.Lock()
	g := m.global
	m.mu.Unlock()
	command := process.Command{Argv: c.Argv, Env: process.Environment(), Secure: g.ScriptSecurity}
	user, err := script.User(g, c.User)
	command.User = user
	cfg := misccheck.Config{Argv: c.Argv, Timeout: c.ConnectTimeout, Dynamic: c.Dynamic, Places: m.places}
	if user != nil {
		cfg.User = user.Name
	}
	cfg.Run = func(ctx context.Context, timeout time.Duration) misccheck.Outcome {
		if err != nil { // there is no such user
			return misccheck.Outcome{Exit: -1, Err: err, Local: true}
		}
		command.Timeout = timeout
		return outcome(process.Run(ctx, command))
	}
	check, newErr := misccheck.New(cfg)
	return cfg.Key(), check, newErr
}

// outcome says how a program ended. One that did not start, or was refused, says
// nothing about the server.
func outcome(o process.Outcome) misccheck.Outcome {
	_, ran := errors.AsType[*exec.ExitError](o.Err)
	return misccheck.Outcome{
		Exit: o.Exit, TimedOut: o.TimedOut, Err: o.Err, Output: o.Output,
		Local: o.Err != nil && !ran && !o.TimedOut && !o.Stopped,
	}
}

// file makes a FILE_CHECK.
func (m *machine) file(c *conf.Check) (string, healthcheck.Checker, error) {
	cfg := filecheck.Config{File: c.File, Dynamic: c.Dynamic, Weight: c.Weight, Reverse: c.Reverse}
	cfg.Read = func() filecheck.Content {
		for _, f := range m.read() {
			if f.Name == c.File {
				return filecheck.Content{Value: f.Value, Known: f.Known, Problem: f.Problem}
			}
		}
		return filecheck.Content{}
	}
	check, err := filecheck.New(cfg)
	return cfg.Key(), check, err
}

// limit is how long a whole attempt of a check may take.
func limit(c *conf.Check) time.Duration {
	if c.Kind == "MISC_CHECK" {
		return misccheck.Attempt(c.ConnectTimeout, process.Grace)
	}
	return c.ConnectTimeout * time.Duration(max(1, len(c.URLs))) // each page has its own
}
