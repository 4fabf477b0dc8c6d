package lab

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
)

// RemoveAddress deletes an address from whatever interface has it, as somebody
// would by hand, and returns the time just before. The node must have it.
func (n *Node) RemoveAddress(addr netip.Addr) time.Time {
	n.lab.t.Helper()
	family := netlink.FAMILY_V4
	if addr.Is6() {
		family = netlink.FAMILY_V6
	}
	list, err := n.handle.AddrList(nil, family)
	if err != nil {
		n.lab.t.Fatalf("lab: %s: listing addresses: %v", n.Name, err)
	}
	for _, a := range list {
		if got, ok := netip.AddrFromSlice(a.IP); !ok || got.Unmap() != addr {
			continue
		}
		link, err := n.handle.LinkByIndex(a.LinkIndex)
		if err != nil {
			n.lab.t.Fatalf("lab: %s: finding the interface of %v: %v", n.Name, addr, err)
		}
		at := time.Now()
		if err := n.handle.AddrDel(link, &a); err != nil {
			n.lab.t.Fatalf("lab: %s: deleting %v: %v", n.Name, addr, err)
		}
		return at
	}
	n.lab.t.Fatalf("lab: %s has no %v to delete", n.Name, addr)
	return time.Time{}
}

// RestoreBase puts all of an interface's own addresses back after Flush, the
// link-local one too, which the kernel makes by itself only when a link comes up.
func (n *Node) RestoreBase(i int) time.Time {
	n.lab.t.Helper()
	at := time.Now()
	n.Readdress(i)
	n.IP(fmt.Sprintf("-6 addr replace fe80::ff:fe%02x:%x/64 dev %s nodad", lan(i), n.octet, n.ethernet(i)))
	return at
}

// Groups lists the multicast groups that the node has joined on an interface.
func (n *Node) Groups(dev string) []netip.Addr {
	n.lab.t.Helper()
	var links []struct {
		Groups []struct {
			Address string `json:"address"`
		} `json:"maddr"`
	}
	n.jsonOf(&links, "ip", "-j", "maddr", "show", "dev", dev)
	var list []netip.Addr
	for _, l := range links {
		for _, g := range l.Groups {
			if a, err := netip.ParseAddr(g.Address); err == nil { // Ethernet groups have none
				list = append(list, a)
			}
		}
	}
	return list
}

// Queue is the receive queue of one raw socket, as the kernel counts it.
type Queue struct {
	IPv6    bool
	Unread  int64 // bytes
	Dropped int64 // packets for which there was no room
}

// RawQueues lists the raw sockets of protocol 112 in the process's namespace.
func (p *Process) RawQueues() []Queue {
	p.Node.lab.t.Helper()
	var list []Queue
	for _, file := range []string{"raw", "raw6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.Pid(), file))
		if err != nil {
			p.Node.lab.t.Fatalf("lab: %s: reading its raw sockets: %v", p.Name, err)
		}
		for line := range strings.Lines(string(b)) {
			// sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer drops
			f := strings.Fields(line)
			if len(f) < 13 || !strings.HasSuffix(f[1], ":0070") {
				continue
			}
			_, rx, _ := strings.Cut(f[4], ":")
			unread, err1 := strconv.ParseInt(rx, 16, 64)
			dropped, err2 := strconv.ParseInt(f[12], 10, 64)
			if err1 != nil || err2 != nil {
				p.Node.lab.t.Fatalf("lab: %s: raw socket %q", p.Name, line)
			}
			list = append(list, Queue{file == "raw6", unread, dropped})
		}
	}
	return list
}

// Unread is the memory held by what waits unread in all raw, packet and netlink
// sockets of the process's namespace, in bytes.
func (p *Process) Unread() int64 {
	p.Node.lab.t.Helper()
	var sum int64
	for _, q := range p.RawQueues() {
		sum += q.Unread
	}
	for file, column := range map[string]int{"packet": 6, "netlink": 4} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", p.Pid(), file))
		if err != nil {
			p.Node.lab.t.Fatalf("lab: %s: reading its %s sockets: %v", p.Name, file, err)
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) <= column || f[0] == "sk" {
				continue
			}
			n, err := strconv.ParseInt(f[column], 10, 64)
			if err != nil {
				p.Node.lab.t.Fatalf("lab: %s: %s socket %q: %v", p.Name, file, line, err)
			}
			sum += n
		}
	}
	return sum
}

// Children lists the pids of the process's children.
func (p *Process) Children() []int { return children()[p.Pid()] }

// LinkLocalOn is the node's link-local address on bridge br0 or br1.
func (n *Node) LinkLocalOn(i int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fe80::ff:fe%02x:%x", lan(i), n.octet))
}
