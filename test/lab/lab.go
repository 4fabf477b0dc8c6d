// Package lab builds the site on which vipd is tested: a switch, directors, a
// client and real servers, each a network namespace of its own, joined by
// learning bridges. It works on any Linux host as root and in User Mode Linux.
//
//	front LAN  bridge br0  10.9.0.0/24  2001:db8:9::/64   (eth0 of every node)
//	second LAN bridge br1  10.8.0.0/24  2001:db8:8::/64   (eth1 of every node)
//	d1 .1   d2 .2   d3 .3   cl .9   r1 .11   r2 .12   r3 .13   switch .254
//
// Everything that a test judges by comes from outside the daemons under test:
// packets with the kernel's time stamps (Capture), a client's pings (Pinger)
// and connections (Client), the kernel's addresses (Owners), neighbours and
// bridge tables.
//
// All waits are bounded, all processes are ended by pid, and all namespaces are
// removed when the test ends. What an earlier, killed run left is removed when
// the next site is made.
package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// T is the part of testing.TB that the lab needs; a demo can have its own.
type T interface {
	Helper()
	Name() string
	Context() context.Context
	Cleanup(func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// VIP and VIP6 are the addresses that the cases speak of.
func VIP() netip.Addr { return netip.MustParseAddr("10.9.0.100") }

// VIP6 is the IPv6 address that the cases speak of.
func VIP6() netip.Addr { return netip.MustParseAddr("2001:db8:9::100") }

// Lab is one site. It belongs to one test and is not for concurrent use.
type Lab struct {
	t      T
	prefix string
	dir    string
	nodes  []*Node
	sw     *Node
	procs  []*Process
	drops  int
	undo   []func() // run in reverse order before the namespaces go
}

// New makes a site with the named nodes (d1, d2, cl, r1 and r2 when none is
// given) and has it removed at the end of the test.
func New(t T, names ...string) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatalf("lab: needs root for network namespaces; run the tests as root")
	}
	for _, tool := range []string{"ip", "bridge"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("lab: %s is missing: apt-get install iproute2 (test/setup.sh installs all that is needed)", tool)
		}
	}
	if len(names) == 0 {
		names = []string{"d1", "d2", "cl", "r1", "r2"}
	}
	sweep()
	// Short, as the paths of control sockets must fit in 107 bytes.
	dir, err := os.MkdirTemp("", "vl")
	if err != nil {
		t.Fatalf("lab: making a directory: %v", err)
	}
	l := &Lab{t: t, prefix: newPrefix(), dir: dir}
	t.Cleanup(l.close)
	l.makeSwitch()
	var nodes []*Node
	for _, name := range names {
		nodes = append(nodes, l.node(name, l.octet(name)))
	}
	l.join(nodes...)
	return l
}

// prefixOf marks a namespace of this package and names the process it belongs to.
func prefixOf(pid int) string { return fmt.Sprintf("vl%d-", pid) }

func newPrefix() string {
	var b [4]byte          // enough for no two sites of a long run to be alike
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return prefixOf(os.Getpid()) + hex.EncodeToString(b[:]) + "-"
}

// sweep removes namespaces, and the processes in them, of runs that were killed.
func sweep() {
	entries, err := os.ReadDir("/run/netns")
	if err != nil {
		return // no namespace was ever made
	}
	for _, e := range entries {
		var pid int
		if n, _ := fmt.Sscanf(e.Name(), "vl%d-", &pid); n != 1 {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			removeNamespaces(e.Name())
		}
	}
}

// removeNamespaces ends what runs in namespaces of ours and deletes them.
func removeNamespaces(list ...string) {
	for range 50 {
		pids := namespacePids(list...)
		if len(pids) == 0 {
			break
		}
		killAll(pids)
		time.Sleep(10 * time.Millisecond)
	}
	cmd := exec.Command("ip", "-force", "-batch", "-")
	cmd.Stdin = strings.NewReader("netns del " + strings.Join(list, "\nnetns del ") + "\n")
	_ = cmd.Run() // already gone is fine
}

// run runs a host command for at most 20 s and returns both its streams.
func run(ctx context.Context, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = 10 * time.Second // a busy machine takes long to read
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// ipBatch runs many ip commands in one process, inside a namespace or not ("").
func (l *Lab) ipBatch(ns string, lines ...string) {
	l.t.Helper()
	argv := []string{"ip", "-batch", "-"}
	if ns != "" {
		argv = []string{"ip", "-n", ns, "-batch", "-"}
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("lab: ip batch in %q: %v\n%s\nof:\n%s", ns, err, out, strings.Join(lines, "\n"))
	}
}

// makeSwitch makes the namespace with the two bridges.
func (l *Lab) makeSwitch() {
	l.t.Helper()
	sw := &Node{lab: l, Name: "sw", NS: l.prefix + "sw", octet: 254}
	l.sw = sw
	l.ipBatch("", "netns add "+sw.NS)
	sw.open()
	sw.quietIPv6()
	var lines []string
	for i := range 2 {
		br := fmt.Sprintf("br%d", i)
		lines = append(lines,
			fmt.Sprintf("link add %s address %s type bridge stp_state 0 forward_delay 0 mcast_snooping 0", br, sw.mac(i)),
			fmt.Sprintf("addr add %s dev %s", sw.prefix4(i), br),
			fmt.Sprintf("addr add %s dev %s nodad", sw.prefix6(i), br),
			fmt.Sprintf("link set %s up", br))
	}
	l.ipBatch(sw.NS, append(lines, "link set lo up")...)
	// A switch looks at Ethernet alone: its ports have no IPv6, and hosts with
	// br_netfilter would drop what is not perfect IP.
	sw.Sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	for _, f := range []string{"iptables", "ip6tables", "arptables"} {
		if key := "net/bridge/bridge-nf-call-" + f; sw.hasSysctl(key) {
			sw.Sysctl(key, "0")
		}
	}
}

// Switch is the node with the bridges; its ports are named as NODE for br0 and
// NODE-1 for br1.
func (l *Lab) Switch() *Node { return l.sw }

// Dir is a directory for this test's files.
func (l *Lab) Dir() string { return l.dir }

// Node returns a node by name.
func (l *Lab) Node(name string) *Node {
	l.t.Helper()
	for _, n := range l.nodes {
		if n.Name == name {
			return n
		}
	}
	l.t.Fatalf("lab: no node %q in this site; name it in lab.New", name)
	return nil
}

// Nodes returns the named nodes.
func (l *Lab) Nodes(names ...string) []*Node {
	l.t.Helper()
	var list []*Node
	for _, n := range names {
		list = append(list, l.Node(n))
	}
	return list
}

// octet is that of a node of the table in the package comment.
func (l *Lab) octet(name string) int {
	l.t.Helper()
	octets := map[string]int{"d1": 1, "d2": 2, "d3": 3, "cl": 9, "r1": 11, "r2": 12, "r3": 13}
	octet, ok := octets[name]
	if !ok {
		l.t.Fatalf("lab: %q is none of the site's nodes; use AddHost for others", name)
	}
	return octet
}

// AddHost adds a node of any name (at most 8 letters) with its own last octet.
func (l *Lab) AddHost(name string, octet int) *Node {
	l.t.Helper()
	n := l.node(name, octet)
	l.join(n)
	return n
}

// node is a node that is not there yet.
func (l *Lab) node(name string, octet int) *Node {
	l.t.Helper()
	if slices.ContainsFunc(l.nodes, func(n *Node) bool { return n.Name == name || n.octet == octet }) {
		l.t.Fatalf("lab: node %q or its address .%d exists already", name, octet)
	}
	n := &Node{lab: l, Name: name, NS: l.prefix + name, octet: octet}
	l.nodes = append(l.nodes, n)
	return n
}

// join makes the namespaces of nodes and cables them to both bridges, all at once:
// programs take long to start in the user-mode kernel.
func (l *Lab) join(nodes ...*Node) {
	l.t.Helper()
	var lines []string
	for _, n := range nodes {
		lines = append(lines, "netns add "+n.NS)
	}
	l.ipBatch("", lines...)
	for _, n := range nodes {
		n.open()
		n.quietIPv6()
	}
	l.plug(nodes, 0, 1)
}

// atEnd has fn run when the site is taken down, last registered first.
func (l *Lab) atEnd(fn func()) { l.undo = append(l.undo, fn) }

// close takes the site down. Logs are shown when the test failed.
func (l *Lab) close() {
	for _, fn := range slices.Backward(l.undo) {
		fn()
	}
	for _, p := range l.procs {
		p.Kill()
	}
	if l.t.Failed() {
		for _, p := range l.procs {
			l.t.Logf("log of %s:\n%s", p.Name, tail(p.Log(), 60))
		}
	}
	var list []string
	for _, n := range append(l.nodes, l.sw) {
		if n != nil {
			n.close()
			list = append(list, n.NS)
		}
	}
	removeNamespaces(list...)
	if err := os.RemoveAll(l.dir); err != nil {
		l.t.Errorf("lab: removing %s: %v", l.dir, err)
	}
}

// tail returns the last n lines of s.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
