package main

import (
	"fmt"
	"strings"

	"vipd/test/lab"
)

// subject is a daemon under test: with keepalived, all of its processes.
type subject struct {
	daemon string // "vipd" or "keepalived"
	role   string
	p      *lab.Process
}

// start starts a daemon on a node with instances written in its own language.
// before are lines of the global section, in keepalived's words.
func start(n *lab.Node, daemon string, before []string, instances ...lab.Instance) *subject {
	s := &subject{daemon: daemon}
	if daemon == "keepalived" {
		s.p = n.KeepalivedBrief(lab.KeepalivedConf("global_defs {\n"+strings.Join(before, "\n")+"\n}", instances...))
		return s
	}
	var global strings.Builder
	global.WriteString("[global_defs]\n")
	for _, w := range before {
		k, v, _ := strings.Cut(w, " ")
		if v == "" {
			v = "true"
		}
		fmt.Fprintf(&global, "%s = %s\n", k, v)
	}
	s.p = n.Vipd(lab.VipdConf(global.String(), instances...)).Process
	return s
}
