package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vipd/test/lab"
	"vipd/test/uml"
)

const (
	advertInterval = 100 * time.Millisecond
	checkInterval  = 500 * time.Millisecond
	servicePort    = 80
)

// vipA is at home on d1, vipB on d2.
func vipA() netip.Addr { return netip.MustParseAddr("10.9.0.100") }
func vipB() netip.Addr { return netip.MustParseAddr("10.9.0.101") }

// site is the stage with its actors.
type site struct {
	*stage
	lab     *lab.Lab
	cl      *lab.Node
	d       [2]*lab.Node
	daemon  [2]*lab.Daemon
	r       [3]*lab.Node
	servers [3]*lab.Server
	results [][2]string // of the summary
}

// note adds a line to the summary and shows it.
func (s *site) note(what, format string, args ...any) {
	value := fmt.Sprintf(format, args...)
	s.results = append(s.results, [2]string{what, value})
	s.say("%s: %s", what, value)
}

// build makes the site and starts both directors.
func build(st *stage) *site {
	st.headline("building the site: switch, client, two directors, three real servers")
	s := &site{stage: st, lab: lab.New(st, "d1", "d2", "cl", "r1", "r2", "r3")}
	s.cl = s.lab.Node("cl")
	for i := range s.r {
		s.r[i] = s.lab.Node(fmt.Sprintf("r%d", i+1))
		s.r[i].HoldVIP(vipA(), vipB())
		s.servers[i] = s.r[i].Serve(servicePort, s.r[i].Name)
	}
	for i := range s.d {
		s.d[i] = s.lab.Node(fmt.Sprintf("d%d", i+1))
		s.daemon[i] = s.d[i].Vipd(config(i))
	}
	s.lab.WaitOwner(vipA(), 15*time.Second, "d1")
	s.lab.WaitOwner(vipB(), 15*time.Second, "d2")
	for _, vip := range []netip.Addr{vipA(), vipB()} {
		s.lab.Eventually(15*time.Second, "both directors have three servers for "+vip.String(), func() bool {
			return s.inTable(s.d[0], vip) == 3 && s.inTable(s.d[1], vip) == 3
		})
	}
	s.say("A is %v, at home on d1; B is %v, at home on d2; both answer from r1, r2, r3 by LVS-DR", vipA(), vipB())
	return s
}

// config of director 0 or 1: two VRRP groups, each director prefers one of them,
// and both know both services.
func config(i int) string {
	prio := [2][2]int{{200, 100}, {100, 200}}[i]
	var b strings.Builder
	// The kernel is to forget closed connections soon, so that the drained server goes while one watches.
	b.WriteString(lab.VipdConf("[global_defs]\nlvs_timeouts = \"tcpfin 1\"\n",
		lab.Instance{Name: "A", VRID: 51, Priority: prio[0], Interval: advertInterval, VIPs: []netip.Addr{vipA()}},
		lab.Instance{Name: "B", VRID: 52, Priority: prio[1], Interval: advertInterval, VIPs: []netip.Addr{vipB()}}))
	for _, service := range []struct {
		vip       netip.Addr
		scheduler string
		weights   [3]int
	}{{vipA(), "rr", [3]int{1, 1, 1}}, {vipB(), "wrr", [3]int{3, 2, 1}}} {
		fmt.Fprintf(&b, "\n[[virtual_server]]\naddress = \"%v:%d\"\nlvs_sched = %q\nlvs_method = \"DR\"\ndelay_loop = \"%v\"\n",
			service.vip, servicePort, service.scheduler, checkInterval)
		b.WriteString("connect_timeout = \"500ms\"\nretry = 0\n[virtual_server.TCP_CHECK]\n")
		for k, w := range service.weights {
			fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = \"10.9.0.%d:%d\"\nweight = %d\n", 11+k, servicePort, w)
		}
	}
	return b.String()
}

// inTable counts the real servers that the kernel's IPVS table of a director has
// for a VIP.
func (s *site) inTable(d *lab.Node, vip netip.Addr) int {
	return len(s.realServers(d, vip))
}

// realServers lists them, as "10.9.0.11:80".
func (s *site) realServers(d *lab.Node, vip netip.Addr) []string {
	var list []string
	service := false
	for line := range strings.Lines(d.Exec("ipvsadm", "-Ln")) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "->":
			if service {
				list = append(list, f[1])
			}
		case len(f) > 1:
			service = f[1] == fmt.Sprintf("%v:%d", vip, servicePort)
		}
	}
	slices.Sort(list)
	return list
}

// shell leaves the user inside.
func (s *site) shell() {
	rc := filepath.Join(s.lab.Dir(), "bashrc")
	var b strings.Builder
	b.WriteString("PS1='(lab) \\w # '\n")
	for _, n := range append([]*lab.Node{s.lab.Switch(), s.cl}, append(s.d[:], s.r[:]...)...) {
		fmt.Fprintf(&b, "%s() { if [ $# = 0 ]; then ip netns exec %s bash --norc; else ip netns exec %s \"$@\"; fi; }\n", n.Name, n.NS, n.NS)
	}
	for i, d := range s.daemon {
		fmt.Fprintf(&b, "vipd%d() { d%d %s \"$@\" --socket %s; }\n", i+1, i+1, os.Getenv(uml.EnvVipd), d.Socket)
		s.say("d%d runs %s, pid %d", i+1, d.ConfigFile, d.Pid())
	}
	fmt.Fprintf(&b, "ask() { cl bash -c \"exec 3<>/dev/tcp/$1/%d; echo who >&3; head -1 <&3\"; }\n", servicePort)
	if err := os.WriteFile(rc, []byte(b.String()), 0o600); err != nil {
		s.Fatalf("writing the shell's start file: %v", err)
	}
	fmt.Print(`
You are inside the site. Every node is a command: alone it is a shell there,
with arguments it runs them there.
    ask 10.9.0.100                     (the client asks who serves there)
    cl ping 10.9.0.100
    d1 ip addr show eth0               d1 ipvsadm -Ln
    vipd1 status                       vipd2 status
    cl tcpdump -ni eth0 vrrp or arp    sw bridge fdb show br br0
    sw ip link set d1 down             (pull the cable of d1)
Leave with exit; everything goes with you.

`)
	cmd := exec.Command("bash", "--rcfile", rc, "-i")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The status of the last command typed is nobody's business.
	_ = cmd.Run()
}
