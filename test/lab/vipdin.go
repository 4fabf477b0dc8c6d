package lab

import (
	"path/filepath"
	"strings"
)

// VipdIn starts vipd as Vipd does, from a shell that runs a script first: for
// limits, file systems and streams that only the daemon is to see. The node's
// processes have mounts of their own.
func (n *Node) VipdIn(script, config string, args ...string) *Daemon {
	n.lab.t.Helper()
	return n.VipdNamed("vipd", script, config, args...)
}

// VipdNamed is VipdIn for one more daemon on a node, with files of its own.
func (n *Node) VipdNamed(name, script, config string, args ...string) *Daemon {
	n.lab.t.Helper()
	dir := n.daemonDir(name)
	d := &Daemon{ConfigFile: filepath.Join(dir, "vipd.toml"), StateDir: filepath.Join(dir, "state"),
		Socket: filepath.Join(dir, "vipd.sock"), args: args}
	n.write(d.ConfigFile, config)
	argv := append([]string{VipdBin(n.lab.t), "run", "-c", d.ConfigFile, "--socket", d.Socket, "--state-dir", d.StateDir}, d.args...)
	d.Process = n.Start(name, "sh", "-ec", "STATE="+d.StateDir+"\n"+script+"\nexec "+strings.Join(argv, " "))
	return d
}
