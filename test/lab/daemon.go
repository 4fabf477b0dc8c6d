package lab

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"vipd/test/uml"
)

// Keepalived starts Debian's keepalived on the node, VRRP alone: most build
// machines have no IPVS. It logs in detail. More arguments may be given.
func (n *Node) Keepalived(conf string, args ...string) *Process {
	n.lab.t.Helper()
	return n.KeepalivedBrief(conf, append([]string{"-D"}, args...)...)
}

// KeepalivedBrief is Keepalived without details in its log: a line for every
// announcement costs it more than the announcement.
func (n *Node) KeepalivedBrief(conf string, args ...string) *Process {
	n.lab.t.Helper()
	return n.keepalived(conf, append([]string{"-P"}, args...)...)
}

// KeepalivedChecks starts Debian's keepalived on the node without VRRP, for its services: the kernel must have IPVS.
func (n *Node) KeepalivedChecks(conf string) *Process {
	n.lab.t.Helper()
	return n.keepalived(conf, "-C", "-D")
}

// KeepalivedServices is KeepalivedChecks without details in its log.
func (n *Node) KeepalivedServices(conf string) *Process {
	n.lab.t.Helper()
	return n.keepalived(conf, "-C")
}

func (n *Node) keepalived(conf string, args ...string) *Process {
	n.lab.t.Helper()
	dir := n.daemonDir("keepalived")
	file := filepath.Join(dir, "keepalived.conf")
	n.write(file, conf)
	// A killed one leaves its pid files, and the next would take them for a
	// daemon that runs.
	for _, pid := range []string{"main.pid", "vrrp.pid", "check.pid", "bfd.pid"} {
		if err := os.Remove(filepath.Join(dir, pid)); err != nil && !os.IsNotExist(err) {
			n.lab.t.Fatalf("lab: removing a stale pid file: %v", err)
		}
	}
	argv := append([]string{"keepalived", "-n", "-l", "-f", file,
		"-p", filepath.Join(dir, "main.pid"), "-r", filepath.Join(dir, "vrrp.pid"),
		"-c", filepath.Join(dir, "check.pid"), "-b", filepath.Join(dir, "bfd.pid")}, args...)
	return n.Start("keepalived", argv...)
}

// ReloadKeepalived writes a new configuration for the keepalived that Keepalived
// started on this node, and sends it SIGHUP.
func (n *Node) ReloadKeepalived(p *Process, conf string) time.Time {
	n.lab.t.Helper()
	n.write(filepath.Join(n.daemonDir("keepalived"), "keepalived.conf"), conf)
	return p.Signal(syscall.SIGHUP)
}

// daemonDir makes a directory for one daemon of the node.
func (n *Node) daemonDir(what string) string {
	n.lab.t.Helper()
	dir := filepath.Join(n.lab.dir, n.Name, what)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		n.lab.t.Fatalf("lab: making a directory for %s: %v", what, err)
	}
	return dir
}

func (n *Node) write(file, text string) {
	n.lab.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		n.lab.t.Fatalf("lab: writing %s: %v", file, err)
	}
}

// Daemon is a running vipd.
type Daemon struct {
	*Process
	ConfigFile, StateDir, Socket string

	args    []string
	outside bool // started in the namespace of the test
}

// VipdBin is the binary under test; Main has built it.
func VipdBin(t T) string {
	t.Helper()
	bin := os.Getenv(uml.EnvVipd)
	if bin == "" {
		t.Fatalf("lab: %s names no vipd binary; the package's TestMain must call lab.Main or lab.MainHost", uml.EnvVipd)
	}
	return bin
}

// Vipd starts vipd on the node with a configuration of its own, a state
// directory of its own and any further arguments of vipd run.
func (n *Node) Vipd(config string, args ...string) *Daemon {
	n.lab.t.Helper()
	dir := n.daemonDir("vipd")
	d := &Daemon{ConfigFile: filepath.Join(dir, "vipd.toml"), StateDir: filepath.Join(dir, "state"),
		Socket: filepath.Join(dir, "vipd.sock"), args: args}
	n.write(d.ConfigFile, config)
	d.start(n)
	return d
}

func (d *Daemon) start(n *Node) {
	n.lab.t.Helper()
	argv := append([]string{VipdBin(n.lab.t), "run", "-c", d.ConfigFile, "--socket", d.Socket, "--state-dir", d.StateDir}, d.args...)
	if d.outside {
		d.Process = n.StartOutside("vipd", argv...)
		return
	}
	d.Process = n.Start("vipd", argv...)
}

// Again starts the daemon again after it has ended, with the same files.
func (d *Daemon) Again() {
	d.Node.lab.t.Helper()
	if d.Running() {
		d.Node.lab.t.Fatalf("lab: %s is still running", d.Name)
	}
	d.start(d.Node)
}

// Reload writes a new configuration and sends SIGHUP.
func (d *Daemon) Reload(config string) time.Time {
	d.Node.lab.t.Helper()
	// Whole or not at all, as a careful operator does it.
	d.Node.write(d.ConfigFile+".new", config)
	if err := os.Rename(d.ConfigFile+".new", d.ConfigFile); err != nil {
		d.Node.lab.t.Fatalf("lab: replacing %s: %v", d.ConfigFile, err)
	}
	return d.Signal(syscall.SIGHUP)
}

// Ctl runs a vipd subcommand against this daemon and returns what it printed.
func (d *Daemon) Ctl(args ...string) (string, error) {
	argv := append([]string{VipdBin(d.Node.lab.t)}, args...)
	return d.Node.Try(append(argv, "--socket", d.Socket)...)
}

// Status asks the daemon; it must answer.
func (d *Daemon) Status() Status {
	d.Node.lab.t.Helper()
	s, err := d.TryStatus()
	if err != nil {
		d.Node.lab.t.Fatalf("lab: status of %s: %v", d.Name, err)
	}
	return s
}

// TryStatus asks the daemon.
func (d *Daemon) TryStatus() (Status, error) {
	var s Status
	out, err := d.Ctl("status", "--json")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		return s, fmt.Errorf("reading %q: %w", out, err)
	}
	return s, nil
}

// WaitState waits at most limit until the daemon says that the instance is in
// the state. Use it to get ready; judge by packets and the kernel.
func (d *Daemon) WaitState(instance, state string, limit time.Duration) {
	d.Node.lab.t.Helper()
	last := ""
	deadline := time.Now().Add(limit)
	for {
		asked := time.Now()
		s, err := d.TryStatus()
		if err == nil {
			i := s.Instance(instance)
			if i.State == state {
				return
			}
			last = i.State + " (" + i.Reason + ")"
		} else {
			last = err.Error()
		}
		if time.Now().After(deadline) || !d.Running() {
			d.Node.lab.t.Fatalf("lab: %s: %s is not %s within %v; last: %s", d.Name, instance, state, limit, last)
		}
		pause(asked)
	}
}
