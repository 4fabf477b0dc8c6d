package lab

import (
	"os/exec"
	"path/filepath"
)

// StartOutside starts a program for the node in the namespace of the test itself,
// as an operator at the machine does.
func (n *Node) StartOutside(name string, argv ...string) *Process {
	n.lab.t.Helper()
	return n.start(name, exec.Command(argv[0], argv[1:]...))
}

// VipdOutside starts vipd as Vipd does, but in the namespace of the test: the
// configuration has to name the node's.
func (n *Node) VipdOutside(config string, args ...string) *Daemon {
	n.lab.t.Helper()
	dir := n.daemonDir("vipd")
	d := &Daemon{ConfigFile: filepath.Join(dir, "vipd.toml"), StateDir: filepath.Join(dir, "state"),
		Socket: filepath.Join(dir, "vipd.sock"), args: args, outside: true}
	n.write(d.ConfigFile, config)
	d.start(n)
	return d
}
