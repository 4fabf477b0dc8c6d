package lab

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// LinkDown takes the node's own end of a cable down (administratively down).
// i is 0 for the front LAN, 1 for the second.
func (n *Node) LinkDown(i int) time.Time { return n.setLink(n, n.ethernet(i), "down") }

// LinkUp takes it up again. The kernel dropped the IPv6 addresses when it went
// down; they are put back. It returns the time just before the change.
func (n *Node) LinkUp(i int) time.Time {
	n.lab.t.Helper()
	at := n.setLink(n, n.ethernet(i), "up")
	n.IP("-6 addr replace " + n.prefix6(i) + " dev " + n.ethernet(i) + " nodad")
	return at
}

// PortDown takes the switch's end down: the node loses its carrier.
func (n *Node) PortDown(i int) time.Time { return n.setLink(n.lab.sw, n.port(i), "down") }

// PortUp gives the carrier back.
func (n *Node) PortUp(i int) time.Time { return n.setLink(n.lab.sw, n.port(i), "up") }

// setLink returns the time just before the change, the earliest at which
// anything could notice.
func (n *Node) setLink(where *Node, dev, state string) time.Time {
	n.lab.t.Helper()
	link, err := where.handle.LinkByName(dev)
	if err != nil {
		n.lab.t.Fatalf("lab: %s: finding %s: %v", where.Name, dev, err)
	}
	at := time.Now()
	if state == "down" {
		err = where.handle.LinkSetDown(link)
	} else {
		err = where.handle.LinkSetUp(link)
	}
	if err != nil {
		n.lab.t.Fatalf("lab: %s: setting %s %s: %v", where.Name, dev, state, err)
	}
	return at
}

// Isolate makes the switch drop every frame from and to the node, while the
// node keeps its carrier. Rejoin ends it.
func (n *Node) Isolate(i int) time.Time { return n.portState(i, 0) }

// Rejoin ends Isolate.
func (n *Node) Rejoin(i int) time.Time { return n.portState(i, 3) }

// portState sets the state of the node's port in the bridge (BR_STATE_…).
func (n *Node) portState(i int, state uint8) time.Time {
	n.lab.t.Helper()
	sw := n.lab.sw
	link, err := sw.handle.LinkByName(n.port(i))
	if err != nil {
		n.lab.t.Fatalf("lab: finding the port of %s: %v", n.Name, err)
	}
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	msg := nl.NewIfInfomsg(unix.AF_BRIDGE)
	msg.Index = int32(link.Attrs().Index)
	req.AddData(msg)
	info := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	info.AddRtAttr(nl.IFLA_BRPORT_STATE, []byte{state})
	req.AddData(info)
	at := time.Now()
	err = sw.Go(func() error {
		at = time.Now()
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if err != nil {
		n.lab.t.Fatalf("lab: setting the port of %s to state %d: %v", n.Name, state, err)
	}
	return at
}

// Unplug deletes the node's interface (and its end at the switch).
func (n *Node) Unplug(i int) time.Time {
	n.lab.t.Helper()
	at := time.Now()
	n.IP("link del " + n.ethernet(i))
	return at
}

// Plug makes the interface again, with a new index, and gives it its addresses.
func (n *Node) Plug(i int) time.Time {
	n.lab.t.Helper()
	at := time.Now()
	n.lab.plug([]*Node{n}, i)
	return at
}

// Flush removes all addresses of an interface; Readdress puts its own back.
func (n *Node) Flush(i int) {
	n.lab.t.Helper()
	n.IP("addr flush dev " + n.ethernet(i))
}

// Readdress puts the interface's own addresses back after Flush.
func (n *Node) Readdress(i int) {
	n.lab.t.Helper()
	n.lab.ipBatch(n.NS, n.addressLines(i)...)
}

// Address is an address in the kernel.
type Address struct {
	Prefix     netip.Prefix
	Dev        string
	Label      string
	Deprecated bool
	Flags      []string // as in ip -j addr: noprefixroute, secondary, …
}

// Addresses lists the node's addresses in the kernel's order, all interfaces.
func (n *Node) Addresses() []Address {
	n.lab.t.Helper()
	var links []struct {
		Dev  string           `json:"ifname"`
		Info []map[string]any `json:"addr_info"`
	}
	n.jsonOf(&links, "ip", "-j", "addr", "show")
	var list []Address
	for _, l := range links {
		for _, a := range l.Info {
			local, _ := a["local"].(string)
			bits, _ := a["prefixlen"].(float64)
			p, err := netip.ParsePrefix(local + "/" + strconv.Itoa(int(bits)))
			if err != nil {
				n.lab.t.Fatalf("lab: %s: address %v: %v", n.Name, a, err)
			}
			label, _ := a["label"].(string)
			addr := Address{Prefix: p, Dev: l.Dev, Label: label}
			for k, v := range a {
				if on, ok := v.(bool); ok && on {
					addr.Flags = append(addr.Flags, k)
				}
			}
			slices.Sort(addr.Flags)
			addr.Deprecated = slices.Contains(addr.Flags, "deprecated")
			list = append(list, addr)
		}
	}
	return list
}

// Has reports whether the kernel of the node has the address, on any interface
// but lo and dummies (where a real server keeps the VIP).
func (n *Node) Has(addr netip.Addr) bool {
	n.lab.t.Helper()
	have, err := n.holds(addr)
	if err != nil {
		n.lab.t.Fatalf("lab: %s: listing addresses: %v", n.Name, err)
	}
	return have
}

// Neigh returns the MAC that the node has for an address on the front LAN, ""
// when there is none.
func (n *Node) Neigh(addr netip.Addr) string {
	n.lab.t.Helper()
	var entries []struct {
		MAC string `json:"lladdr"`
	}
	n.jsonOf(&entries, "ip", "-j", "neigh", "show", addr.String(), "dev", n.ethernet(0))
	for _, e := range entries {
		if e.MAC != "" {
			return e.MAC
		}
	}
	return ""
}

// FDB returns the port behind which bridge br0 has learned a MAC: the name of a
// node, "" when it has not learned it.
func (l *Lab) FDB(mac string) string {
	l.t.Helper()
	var entries []struct {
		MAC   string `json:"mac"`
		Port  string `json:"ifname"`
		State string `json:"state"`
	}
	l.sw.jsonOf(&entries, "bridge", "-j", "fdb", "show", "br", "br0")
	for _, e := range entries {
		if strings.EqualFold(e.MAC, mac) && e.State != "permanent" {
			return e.Port
		}
	}
	return ""
}

// jsonOf runs a command and decodes what it prints. Nothing printed is an empty list.
func (n *Node) jsonOf(into any, argv ...string) {
	n.lab.t.Helper()
	out := n.Exec(argv...)
	if strings.TrimSpace(out) == "" {
		return
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		n.lab.t.Fatalf("lab: %s: output of %v: %v", n.Name, argv, err)
	}
}

// Received is how many frames the node's front LAN interface has received so far.
func (n *Node) Received() uint64 {
	n.lab.t.Helper()
	link, err := n.handle.LinkByName(n.ethernet(0))
	if err != nil || link.Attrs().Statistics == nil {
		n.lab.t.Fatalf("lab: %s: reading the counters of eth0: %v", n.Name, err)
	}
	return link.Attrs().Statistics.RxPackets
}
