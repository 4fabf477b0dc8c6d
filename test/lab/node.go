package lab

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Node is one machine of the site: a network namespace with eth0 on br0 and
// eth1 on br1. For the switch the interfaces are br0 and br1.
type Node struct {
	Name string
	NS   string // name of the namespace, for ip netns exec

	lab    *Lab
	octet  int
	handle *netlink.Handle
	file   *os.File      // the namespace
	begun  atomic.Uint64 // requests of Load with addresses of their own
}

// open gets hold of the namespace.
func (n *Node) open() {
	n.lab.t.Helper()
	f, err := os.Open(filepath.Join("/run/netns", n.NS))
	if err != nil {
		n.lab.t.Fatalf("lab: opening namespace %s: %v", n.NS, err)
	}
	n.file = f
	h, err := netlink.NewHandleAt(netns.NsHandle(f.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		n.lab.t.Fatalf("lab: opening netlink in %s: %v", n.NS, err)
	}
	if err := h.SetSocketTimeout(10 * time.Second); err != nil {
		n.lab.t.Fatalf("lab: setting a netlink timeout in %s: %v", n.NS, err)
	}
	n.handle = h
}

func (n *Node) close() {
	if n.handle != nil {
		n.handle.Close()
	}
	if n.file != nil {
		n.file.Close()
	}
}

// lan is the third octet of a bridge's network: br0 is 10.9.0, br1 is 10.8.0.
func lan(i int) int { return 9 - i }

// Addr is the node's IPv4 address on the front LAN.
func (n *Node) Addr() netip.Addr { return n.AddrOn(0) }

// AddrOn is the node's IPv4 address on bridge br0 or br1.
func (n *Node) AddrOn(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(lan(i)), 0, byte(n.octet)})
}

// Addr6 is the node's global IPv6 address on the front LAN.
func (n *Node) Addr6() netip.Addr { return n.Addr6On(0) }

// Addr6On is the node's global IPv6 address on bridge br0 or br1.
func (n *Node) Addr6On(i int) netip.Addr { return netip.MustParsePrefix(n.prefix6(i)).Addr() }

// LinkLocal is the node's link-local address on the front LAN, as the kernel
// derives it from the MAC.
func (n *Node) LinkLocal() netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fe80::ff:fe%02x:%x", lan(0), n.octet))
}

// MAC is the address of the node's interface on the front LAN.
func (n *Node) MAC() string { return n.mac(0) }

func (n *Node) mac(i int) string      { return fmt.Sprintf("02:00:00:%02x:00:%02x", lan(i), n.octet) }
func (n *Node) prefix4(i int) string  { return fmt.Sprintf("%s/24", n.AddrOn(i)) }
func (n *Node) prefix6(i int) string  { return fmt.Sprintf("2001:db8:%d::%d/64", lan(i), n.octet) }
func (n *Node) port(i int) string     { return map[int]string{0: n.Name, 1: n.Name + "-1"}[i] }
func (n *Node) ethernet(i int) string { return fmt.Sprintf("eth%d", i) }

// quietIPv6 makes addresses usable at once and keeps the kernel's own chatter
// out of the captures. It must run before an interface exists.
func (n *Node) quietIPv6() {
	n.lab.t.Helper()
	var keys []string
	for _, scope := range []string{"all", "default"} {
		keys = append(keys, "net/ipv6/conf/"+scope+"/accept_dad", "net/ipv6/conf/"+scope+"/dad_transmits",
			"net/ipv6/conf/"+scope+"/router_solicitations", "net/ipv6/conf/"+scope+"/accept_ra", "net/ipv4/conf/"+scope+"/rp_filter")
	}
	n.sysctls("0", keys...)
}

// plug cables the eth of each given bridge of nodes and sets their addresses.
func (l *Lab) plug(nodes []*Node, bridges ...int) {
	l.t.Helper()
	var outside []string
	for _, n := range nodes {
		for _, i := range bridges {
			outside = append(outside,
				fmt.Sprintf("link add %s type veth peer name %s address %s netns %s", n.port(i), n.ethernet(i), n.mac(i), n.NS),
				fmt.Sprintf("link set %s master br%d up", n.port(i), i))
		}
	}
	l.ipBatch(l.sw.NS, outside...)
	for _, n := range nodes {
		n.setUp("lo")
		for _, i := range bridges {
			n.setUp(n.ethernet(i), n.prefix4(i), n.prefix6(i))
		}
	}
	for _, n := range nodes {
		for _, i := range bridges {
			n.waitUp(n.ethernet(i))
			l.sw.waitUp(n.port(i))
		}
	}
	l.Eventually(5*time.Second, "the switch forwards", func() bool {
		var ports []struct {
			Name  string `json:"ifname"`
			State string `json:"state"`
		}
		l.sw.jsonOf(&ports, "bridge", "-j", "link", "show")
		forwards := map[string]bool{}
		for _, p := range ports {
			forwards[p.Name] = p.State == "forwarding"
		}
		return !slices.ContainsFunc(nodes, func(n *Node) bool {
			return slices.ContainsFunc(bridges, func(i int) bool { return !forwards[n.port(i)] })
		})
	})
}

// setUp takes a link up and gives it addresses.
func (n *Node) setUp(dev string, prefixes ...string) {
	n.lab.t.Helper()
	link, err := n.handle.LinkByName(dev)
	if err == nil {
		err = n.handle.LinkSetUp(link)
	}
	for _, p := range prefixes {
		if err == nil {
			err = n.addAddress(link, p)
		}
	}
	if err != nil {
		n.lab.t.Fatalf("lab: %s: setting up %s: %v", n.Name, dev, err)
	}
}

// addAddress adds an address with its length, as ip addr add … broadcast +, and
// without a search for duplicates.
func (n *Node) addAddress(link netlink.Link, prefix string) error {
	a, err := netlink.ParseAddr(prefix)
	if err != nil {
		return err
	}
	if a.IP.To4() == nil {
		a.Flags = unix.IFA_F_NODAD
	}
	return n.handle.AddrAdd(link, a)
}

// waitUp waits until a link carries traffic: the kernel tells the bridge of a
// new carrier with a delay of up to a second.
func (n *Node) waitUp(dev string) {
	n.lab.t.Helper()
	n.lab.Eventually(5*time.Second, dev+" of "+n.Name+" is up", func() bool {
		link, err := n.handle.LinkByName(dev)
		return err == nil && link.Attrs().OperState == netlink.OperUp
	})
}

// addressLines are the ip commands that bring an interface up with its own addresses.
func (n *Node) addressLines(i int) []string {
	dev := n.ethernet(i)
	return []string{
		fmt.Sprintf("link set %s up", dev),
		fmt.Sprintf("addr add %s broadcast + dev %s", n.prefix4(i), dev),
		fmt.Sprintf("addr add %s dev %s nodad", n.prefix6(i), dev),
	}
}

// Go runs fn on a thread inside the namespace and waits for it. Sockets that fn
// makes stay in the namespace when used elsewhere later.
func (n *Node) Go(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- fmt.Errorf("opening the own namespace: %w", err)
			runtime.UnlockOSThread()
			return
		}
		defer home.Close()
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("entering namespace %s: %w", n.NS, err)
			runtime.UnlockOSThread()
			return
		}
		defer func() {
			if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			} // else the thread ends with this goroutine
		}()
		done <- fn()
	}()
	return <-done
}

// Try runs a command in the namespace for at most 20 s and returns what it
// printed.
func (n *Node) Try(argv ...string) (string, error) {
	var out string
	err := n.Go(func() error {
		var err error
		out, err = run(context.WithoutCancel(n.lab.t.Context()), argv...)
		return err
	})
	return out, err
}

// Exec is Try for a command that must succeed.
func (n *Node) Exec(argv ...string) string {
	n.lab.t.Helper()
	out, err := n.Try(argv...)
	if err != nil {
		n.lab.t.Fatalf("lab: %s: %v", n.Name, err)
	}
	return out
}

// Sh runs a shell script in the namespace; it must succeed.
func (n *Node) Sh(script string) string {
	n.lab.t.Helper()
	return n.Exec("sh", "-ec", script)
}

// IP runs one ip command in the namespace, given as one line of words.
func (n *Node) IP(line string) string {
	n.lab.t.Helper()
	return n.Exec(append([]string{"ip"}, strings.Fields(line)...)...)
}

// Sysctl writes a kernel setting of the namespace, as in
// Sysctl("net/ipv4/ip_forward", "1").
func (n *Node) Sysctl(key, value string) {
	n.lab.t.Helper()
	n.sysctls(value, key)
}

// sysctls sets some to the same value.
func (n *Node) sysctls(value string, keys ...string) {
	n.lab.t.Helper()
	err := n.Go(func() error {
		for _, key := range keys {
			if err := os.WriteFile("/proc/sys/"+key, []byte(value), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		n.lab.t.Fatalf("lab: %s: %v", n.Name, err)
	}
}

// hasSysctl reports whether the kernel has the setting.
func (n *Node) hasSysctl(key string) bool {
	return n.Go(func() error { _, err := os.Stat("/proc/sys/" + key); return err }) == nil
}

// ReadSysctl reads a kernel setting of the namespace.
func (n *Node) ReadSysctl(key string) string {
	n.lab.t.Helper()
	var b []byte
	err := n.Go(func() (err error) { b, err = os.ReadFile("/proc/sys/" + key); return err })
	if err != nil {
		n.lab.t.Fatalf("lab: %s: reading %s: %v", n.Name, key, err)
	}
	return strings.TrimSpace(string(b))
}
