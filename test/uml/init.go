package uml

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

const (
	statusFile  = "status"
	markerBegin = "@@vipd-uml-begin@@\n"
	markerEnd   = "@@vipd-uml-end@@"
)

// usualModules are loaded in every guest. IPVS schedulers load by themselves.
func usualModules() []string { return []string{"veth", "bridge", "dummy", "macvlan", "ip_vs"} }

// memoryDirs are the directories that are empty file systems in memory inside.
func memoryDirs() []string { return []string{"/run", "/tmp", "/var", "/root"} }

// hidden reports whether a host path would be covered by one of memoryDirs.
func hidden(path string) bool {
	for _, d := range memoryDirs() {
		if path == d || strings.HasPrefix(path, d+"/") {
			return true
		}
	}
	return false
}

// initScript is process 1 of the guest.
func initScript(argv []string, scratch string, o Options) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("#!/bin/sh")
	p("exec </dev/console >/dev/console 2>&1")
	for _, kv := range environment(o) {
		k, v, _ := strings.Cut(kv, "=")
		p("export %s=%s", k, quote(v))
	}
	p("mount -t proc proc /proc && mount -t sysfs sysfs /sys || echo mounting /proc and /sys failed")
	// Daemons that find no syslog write to the console; the output is not theirs.
	p("rm -f /dev/console && mknod -m 666 /dev/console c 1 3")
	p("mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /dev/shm")
	for _, d := range memoryDirs() {
		p("[ -L %s ] || mount -t tmpfs -o mode=1777 tmpfs %s || echo mounting %s failed", d, d, d)
	}
	p("mkdir -p /run/netns /run/lock /var/tmp /var/log /var/lib /var/cache; ln -s /run /var/run; ln -s /run/lock /var/lock; chmod 1777 /var/tmp")
	p("mount -t tmpfs tmpfs /lib/modules && ln -s %s/$(uname -r) /lib/modules/$(uname -r) || echo mounting /lib/modules failed", moduleDir)
	for _, s := range sortedShares(o.Share) {
		p("mkdir -p %s && mount -t hostfs -o %s hostfs %s || echo sharing %s failed", quote(s), quote(s), quote(s), quote(s))
	}
	p("ip link set lo up")
	p("modprobe -a %s || echo loading kernel modules failed", strings.Join(append(usualModules(), o.Modules...), " "))
	p("cd %s", quote(o.Dir))
	if !o.Interactive {
		p("stty -onlcr")
		p("printf '%%s' %s", quote(markerBegin))
	}
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = quote(a)
	}
	run := strings.Join(words, " ")
	if o.Interactive {
		run = "setsid -c -w " + run // a controlling terminal, so that Ctrl-C and job control work
	} else {
		run += " </dev/null"
	}
	p("%s", run)
	p("status=$?")
	if !o.Interactive {
		p("printf '%%s' %s", quote(markerEnd))
	}
	p("echo $status >%s/%s.new && mv %s/%s.new %s/%s; sync", scratch, statusFile, scratch, statusFile, scratch, statusFile)
	// A small Debian has no halt. The kernel takes its time with sysrq, and must not lose process 1 meanwhile.
	p("halt -f -p >/dev/null 2>&1 || poweroff -f >/dev/null 2>&1 || echo o >/proc/sysrq-trigger; sleep 10")
	p("exit 0")
	return b.String()
}

// sortedShares puts parents before what is in them.
func sortedShares(dirs []string) []string {
	dirs = slices.Clone(dirs)
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// environment is the caller's, minus what has no meaning inside.
func environment(o Options) []string {
	drop := []string{"LD_PRELOAD", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"}
	var env []string
	path := false
	for _, kv := range append(os.Environ(), o.Env...) {
		k, _, ok := strings.Cut(kv, "=")
		if !ok || !shellName(k) || slices.Contains(drop, k) {
			continue
		}
		path = path || k == "PATH"
		env = append(env, kv)
	}
	if !path {
		env = append(env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	}
	return append(env, EnvInside+"=1")
}

// shellName reports whether a shell can export a variable of this name.
func shellName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// quote makes one word of s for the shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
