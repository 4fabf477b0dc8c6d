package cases

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// inNamespace is the configuration of both families for a daemon that is started
// outside and goes into the node's namespace by itself.
func inNamespace(n *lab.Node, priority int, more ...string) string {
	return fmt.Sprintf("net_namespace = %q\n", n.NS) + bothFamilies(lab.Instance{Priority: priority, Interval: quick, Extra: more})
}

// namespaceFile is the file that names the namespace of a node.
func namespaceFile(n *lab.Node) string { return "/run/netns/" + n.NS }

// everyThread checks that all threads of a process are in a node's namespace.
func everyThread(t *testing.T, pid int, n *lab.Node) {
	t.Helper()
	want, err := os.Stat(namespaceFile(n))
	if err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", pid))
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads of process %d (%v)", len(threads), pid, err)
	}
	for _, f := range threads {
		if is, err := os.Stat(f); err == nil && !os.SameFile(is, want) { // a thread may have ended
			t.Errorf("%s is not in the namespace of %s", f, n.Name)
		}
	}
}

// files are the files and sockets that a process has open, by path, and those below
// its state directory.
func files(t *testing.T, d *lab.Daemon) []string {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", d.Pid()))
	if err != nil || len(fds) == 0 {
		t.Fatalf("no open files of %s (%v)", d.Name, err)
	}
	mine := map[string]bool{} // what this process was given is passed on
	own, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range own {
		to, _ := os.Readlink(fd)
		mine[to] = true
	}
	var list []string
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && !mine[to] && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/dev/") && !strings.HasPrefix(to, "/proc/") {
			list = append(list, to)
		}
	}
	err = filepath.WalkDir(filepath.Dir(d.StateDir), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// hostSettings are the network settings of the namespace that the test is in.
func hostSettings(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"/proc/sys/net/ipv4/conf/*/*", "/proc/sys/net/ipv6/conf/*/*", "/proc/sys/net/ipv4/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range paths {
			if b, err := os.ReadFile(f); err == nil { // some are for writing alone
				all[f] = string(b)
			}
		}
	}
	return all
}

// O28 (ka#1533, ka!2080, ka#1575): two daemons, started from one host, each in a
// namespace that its own configuration names.
//
// Claim: adverts of both families are sent in the namespaces, one takes over from the
// other, the daemons share no file, no socket and no setting, the host has no part
// in it, and commands are run in the namespace.
func TestO28TwoDaemonsFromOneHost(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2, cl := l.Node("d1"), l.Node("d2"), l.Node("cl")
	seen := cl.Capture()
	before := hostSettings(t)
	out := filepath.Join(l.Dir(), "notified")
	script := program(t, "readlink /proc/self/ns/net >>"+out+"; ls /sys/class/net >>"+out+"; env | grep VIPD_ >>"+out)
	v1 := d1.VipdOutside(inNamespace(d1, 200, "notify_master "+script))
	for _, f := range families() {
		l.WaitOwner(f.vip, 15*time.Second, "d1")
	}
	v2 := d2.VipdOutside(inNamespace(d2, 100))
	for _, f := range families() {
		v2.WaitState(f.instance, "BACKUP", 10*time.Second)
		seen.WaitAdvert(5*time.Second, f.vrid, f.source(d1), time.Now())
	}
	for d, n := range map[*lab.Daemon]*lab.Node{v1: d1, v2: d2} {
		everyThread(t, d.Pid(), n)
		if out, err := d.Ctl("status", "--json"); err != nil || !strings.Contains(out, fmt.Sprintf(`"pid": %d,`, d.Pid())) || !strings.Contains(out, `"net_namespace": "`+n.NS+`"`) {
			t.Errorf("status of %s (%v) has not its process and namespace:\n%s", n.Name, err, out)
		}
	}
	of1, of2 := files(t, v1), files(t, v2)
	for _, f := range of1 {
		if slices.Contains(of2, f) && f != lab.VipdBin(t) {
			t.Errorf("both have %s", f)
		}
	}
	commandsWereInside(t, l, out, d1)
	host, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range host {
		if p := netip.MustParsePrefix(a.String()); p.Addr() == lab.VIP() || p.Addr() == lab.VIP6() {
			t.Errorf("the host has %v", p)
		}
	}

	at := v1.Stop(5 * time.Second)
	for _, f := range families() {
		l.WaitOwner(f.vip, time.Until(at.Add(time.Second)), "d2")
		seen.WaitAdvert(5*time.Second, f.vrid, f.source(d2), at)
	}
	v1.Again()
	for _, f := range families() {
		l.WaitOwner(f.vip, 10*time.Second, "d1")
	}
	v1.Kill() // without a word
	for _, f := range families() {
		seen.WaitAdvert(5*time.Second, f.vrid, f.source(d2), time.Now())
	}
	for name, value := range before {
		if now, err := os.ReadFile(name); err == nil && string(now) != value {
			t.Errorf("the host's %s was %q and is %q", name, value, now)
		}
	}
}

// commandsWereInside checks what a command found: the namespace of the node, its
// interfaces in /sys, and nothing of how it got there in its environment.
func commandsWereInside(t *testing.T, l *lab.Lab, out string, n *lab.Node) {
	t.Helper()
	link := strings.TrimSpace(n.Exec("readlink", "/proc/self/ns/net"))
	l.Eventually(5*time.Second, "the command has run for both instances", func() bool {
		b, err := os.ReadFile(out)
		return err == nil && strings.Count(string(b), "lo") == 2
	})
	got := strings.Fields(strings.Join(readLines(t, out), " "))
	want := []string{link, "eth0", "eth1", "lo"}
	for _, w := range got {
		if !slices.Contains(want, w) {
			t.Errorf("a command saw %q, which is not of %s", w, n.Name)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("a command did not see %q", w)
		}
	}
}

// O28: a reload that changes the namespace, that of the table, or the name of the
// daemon.
//
// Claim: it is refused with a message that says what and why, the running
// configuration goes on without a gap, and the next good one is taken.
func TestO28ReloadToAnotherNamespace(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2 := l.Node("d1"), l.Node("d2")
	seen := l.Node("cl").Capture()
	config := inNamespace(d1, 200)
	v := d1.VipdOutside(config)
	for _, f := range families() {
		l.WaitOwner(f.vip, 15*time.Second, "d1")
	}
	at := time.Now()
	for _, c := range []struct{ config, says string }{
		{inNamespace(d2, 150), fmt.Sprintf("net_namespace %s -> %s", d1.NS, d2.NS)},
		{bothFamilies(lab.Instance{Priority: 150, Interval: quick}), fmt.Sprintf("net_namespace %s -> none", d1.NS)},
		{"net_namespace_ipvs = \"" + d2.NS + "\"\n" + config, "net_namespace_ipvs none -> " + d2.NS},
		{"instance = \"blue\"\n" + config, "instance none -> blue"},
	} {
		v.Reload(c.config)
		l.Eventually(5*time.Second, "a log line about "+c.says, func() bool {
			return strings.Contains(v.Log(), "reload refused, the running configuration stays: "+c.says+": a reload cannot change this")
		})
		if out, err := v.Ctl("reload"); err == nil || !strings.Contains(out+err.Error(), c.says) {
			t.Errorf("vipd reload says %q (%v), want %q", out, err, c.says)
		}
		if out, err := v.Ctl("status"); err != nil || !strings.Contains(out, "LAST RELOAD REFUSED: "+c.says) {
			t.Errorf("vipd status does not say %q: %v\n%s", c.says, err, out)
		}
	}
	time.Sleep(2 * quick)
	for _, f := range families() {
		l.WaitOwner(f.vip, 0, "d1")
		steady(t, seen, f.vrid, f.source(d1), 200, quick, at)
	}
	everyThread(t, v.Pid(), d1)
	v.Reload(inNamespace(d1, 180))
	l.Eventually(5*time.Second, "the good configuration runs", func() bool {
		list := lab.From(seen.Adverts(families()[0].vrid), d1.Addr())
		return len(list) > 0 && list[len(list)-1].Priority == 180
	})
}

// O28: where daemons live whom no flag has told.
//
// Claim: each in a directory of its own, named after namespace and instance, where
// other commands find it; a second one for the same place does not start, and says
// whom it met.
func TestO28PlacesWithoutFlags(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2")
	place := func(n *lab.Node, instance string) string { return strings.TrimSuffix(n.NS+"-"+instance, "-") }
	type daemon struct {
		*lab.Process
		name string
	}
	start := func(n *lab.Node, instance, iface string) daemon {
		text := fmt.Sprintf("net_namespace = %q\n", n.NS)
		if instance != "" {
			text += fmt.Sprintf("instance = %q\n", instance)
		}
		file := filepath.Join(l.Dir(), place(n, instance)+iface+".toml")
		if err := os.WriteFile(file, []byte(lab.VipdConf(text, lab.Instance{Interface: iface, Interval: quick, VIPs: []netip.Addr{lab.VIP()}})), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll("/run/vipd-" + place(n, instance)) })
		return daemon{n.StartOutside(place(n, instance), lab.VipdBin(t), "run", "-c", file), place(n, instance)}
	}
	d1, d2 := l.Node("d1"), l.Node("d2")
	all := []daemon{start(d1, "", "eth0"), start(d2, "", "eth0"), start(d1, "blue", "eth1")}
	for _, d := range all {
		l.Eventually(10*time.Second, d.name+" answers", func() bool {
			out, err := d.Node.Try(lab.VipdBin(t), "status", "--instance", d.name)
			return err == nil && strings.Contains(out, fmt.Sprintf("pid %d,", d.Pid()))
		})
		if b, err := os.ReadFile("/run/vipd-" + d.name + "/vipd.pid"); err != nil || strings.TrimSpace(string(b)) != fmt.Sprint(d.Pid()) {
			t.Errorf("vipd.pid of %s: %q (%v), want %d", d.name, b, err, d.Pid())
		}
	}
	again := start(d1, "blue", "eth0")
	if status := again.Wait(5 * time.Second); status != 1 || !strings.Contains(again.Log(), fmt.Sprintf("another vipd (pid %d) uses /run/vipd-%s", all[2].Pid(), all[2].name)) {
		t.Errorf("a second daemon ended with %d and\n%s", status, again.Log())
	}
	for _, d := range all {
		if !d.Running() {
			t.Errorf("%s has ended", d.name)
		}
		d.Stop(5 * time.Second)
	}
}

// O28: what an operator reads who names a namespace that is not there, or a file
// that is none.
func TestO28NoSuchNamespace(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	fake := strings.ReplaceAll(d1.NS, "-", "_") // not removed with the namespaces of a site
	if err := os.WriteFile("/run/netns/"+fake, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove("/run/netns/" + fake) })
	for _, c := range []struct{ config, says string }{
		{`net_namespace = "no-such"`, `net_namespace: there is no network namespace "no-such": make it first (ip netns add no-such)`},
		{`net_namespace = "` + fake + `"`, "the file is not a namespace"},
		{`net_namespace_ipvs = "no-such"`, `net_namespace_ipvs: there is no network namespace "no-such"`},
	} {
		config := c.config + "\n" + bothFamilies(lab.Instance{Interval: quick})
		v := d1.VipdOutside(config)
		if status := v.Wait(5 * time.Second); status != 1 || !strings.Contains(v.Log(), c.says) {
			t.Errorf("%s: ended with %d and\n%s\nwant %q", c.config, status, v.Log(), c.says)
		}
		if out, err := d1.Try(lab.VipdBin(t), "check", "-c", v.ConfigFile); err != nil || !strings.Contains(out, "warning: on this machine: net_namespace") {
			t.Errorf("%s: vipd check says (%v)\n%s", c.config, err, out)
		}
	}
}

// O28 with Debian's keepalived in a namespace of its own (net_namespace) as peer.
//
// Claim: each takes over from the other, and both run their commands in their
// namespaces.
func TestO28KeepalivedInNamespace(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	d1, d2 := l.Node("d1"), l.Node("d2")
	out := filepath.Join(l.Dir(), "notified")
	script := program(t, "readlink /proc/self/ns/net >>"+out)
	instance := func(priority int) lab.Instance {
		return lab.Instance{Priority: priority, Interval: quick, VIPs: []netip.Addr{lab.VIP()}, Extra: []string{"notify_master " + script}}
	}
	file := filepath.Join(l.Dir(), "keepalived.conf")
	if err := os.WriteFile(file, []byte(lab.KeepalivedConf("net_namespace "+d2.NS, instance(100))), 0o600); err != nil {
		t.Fatal(err)
	}
	v1 := d1.VipdOutside(fmt.Sprintf("net_namespace = %q\n", d1.NS) + lab.VipdConf("", instance(200)))
	l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
	k := d2.StartOutside("keepalived", "keepalived", "-n", "-l", "-D", "-P", "-f", file)
	l.Eventually(10*time.Second, "keepalived is backup", func() bool { return strings.Contains(k.Log(), "Entering BACKUP STATE") })
	time.Sleep(downTimer(quick, 100))
	l.WaitOwner(lab.VIP(), 0, "d1")
	v1.Kill()
	d1.IP("addr del " + lab.VIP().String() + "/32 dev eth0") // as the next start of vipd would
	l.WaitOwner(lab.VIP(), 5*time.Second, "d2")
	v1.Again()
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	k.Stop(10 * time.Second)
	for n, who := range map[*lab.Node]string{d1: "vipd", d2: "keepalived"} {
		if link := strings.TrimSpace(n.Exec("readlink", "/proc/self/ns/net")); !slices.Contains(readLines(t, out), link+"\n") {
			t.Errorf("the command of %s was not run in its namespace %s: %q", who, link, readLines(t, out))
		}
	}
}

// O28 in containers: two daemons, each process 1 of a pid namespace on one host, in
// network namespaces of their configurations.
//
// Claim: they stay process 1, SIGTERM of one gives its addresses to the other within
// 1 s, and a SIGKILL does after the down-timer.
func TestO28TwoContainersOnOneHost(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2", "cl")
	seen := l.Node("cl").Capture()
	start := func(n *lab.Node, priority int) container {
		dir := filepath.Join(l.Dir(), n.Name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "vipd.toml")
		if err := os.WriteFile(file, []byte(inNamespace(n, priority)), 0o600); err != nil {
			t.Fatal(err)
		}
		return container{n.StartOutside("container", "unshare", "--pid", "--fork", "--mount-proc", lab.VipdBin(t), "run", "-c", file,
			"--socket", filepath.Join(dir, "s"), "--state-dir", filepath.Join(dir, "state"))}
	}
	owner := func(limit time.Duration, want ...string) {
		t.Helper()
		at := time.Now()
		for _, f := range families() {
			l.WaitOwner(f.vip, time.Until(at.Add(limit)), want...)
		}
	}
	c1 := start(l.Node("d1"), 200)
	owner(15*time.Second, "d1")
	c2 := start(l.Node("d2"), 100)
	socket := filepath.Join(l.Dir(), "d2", "s")
	l.Eventually(10*time.Second, "the second is backup and process 1", func() bool {
		out, err := l.Node("d2").Try(lab.VipdBin(t), "status", "--socket", socket)
		return err == nil && strings.Contains(out, "pid 1,") && strings.Count(out, "BACKUP") == 2
	})
	at := c1.signal(t, syscall.SIGTERM)
	owner(time.Until(at.Add(time.Second)), "d2")
	c1.Wait(5 * time.Second)
	c1 = start(l.Node("d1"), 200)
	owner(15*time.Second, "d1")
	at = c1.signal(t, syscall.SIGKILL)
	for _, f := range families() {
		seen.WaitAdvert(5*time.Second, f.vrid, f.source(l.Node("d2")), at)
	}
	c2.signal(t, syscall.SIGTERM)
	c2.Wait(5 * time.Second)
}
