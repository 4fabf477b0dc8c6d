package socket

import (
	"bytes"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"vipd/vrrp/packet"
)

// vmacWire is a wire whose near end has a link with the virtual MAC of the reference frames.
type vmacWire struct {
	*wire
	vmac int
}

func newVMACWire(t *testing.T, v6 bool) *vmacWire {
	t.Helper()
	w := &vmacWire{wire: newWire(t, 2)}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.HardwareAddr = "vrrp.51", w.index, net.HardwareAddr{0, 0, 0x5e, 0, 1, 51}
	if v6 {
		attrs.HardwareAddr[4] = 2
	}
	link := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_PRIVATE}
	must(t, w.near.nl.LinkAdd(link))
	must(t, w.near.nl.LinkSetIP6AddrGenMode(link, 1))
	must(t, w.near.nl.LinkSetUp(link))
	w.vmac = link.Attrs().Index
	return w
}

// serve opens the socket of the link.
func (w *vmacWire) serve(t *testing.T, v6 bool) *endpoint {
	t.Helper()
	k := lanKey(v6)
	k.Interface, k.Index, k.Parent = "vrrp.51", w.vmac, w.index
	e := &endpoint{done: make(chan error, 1)}
	w.near.do(t, func() (err error) {
		e.Conn, err = Open(k, e.drops.add)
		return err
	})
	t.Cleanup(func() { e.Close() })
	e.SetVRIDs([]uint8{51})
	e.serve(t)
	return e
}

// joined reports whether a link has joined a group.
func (w *vmacWire) joined(t *testing.T, dev, group string) bool {
	t.Helper()
	var out []byte
	w.near.do(t, func() (err error) {
		out, err = exec.Command("ip", "maddr", "show", "dev", dev).Output()
		return err
	})
	return strings.Contains(string(out), " "+group+"\n")
}

// TestVirtualMAC: on a link with a virtual MAC adverts leave with it, from an address that is not on the link; those of
// others arrive whether they bear the same virtual MAC or not, with all that is judged elsewhere; and the group is joined
// by the interface below, so that no report bears the virtual MAC.
func TestVirtualMAC(t *testing.T) {
	for _, file := range []string{"vmac-ipv4.txt", "vmac-ipv6.txt"} {
		t.Run(file, func(t *testing.T) {
			v6 := strings.Contains(file, "ipv6")
			w := newVMACWire(t, v6)
			wire := w.capture(t)
			e := w.serve(t, v6)
			theirs := bytes.Clone(referenceFrames(t, file)[0].Data)
			wire.inject(t, theirs) // the same virtual MAC as ours
			plain := bytes.Clone(theirs)
			copy(plain[6:], mac(1))
			wire.inject(t, plain)
			eventually(t, "both adverts", func() bool { return len(e.all()) == 2 })
			for _, a := range e.all() {
				want := arrival{100, addr1, Group4, 255, vip4, "vrrp.51", false, time.Time{}}
				if v6 {
					want = arrival{100, link1, Group6, 255, vip6, "vrrp.51", true, time.Time{}}
				}
				if a.at = (time.Time{}); a != want {
					t.Errorf("got %+v, want %+v", a, want)
				}
			}
			bad := bytes.Clone(plain)
			bad[len(bad)-1]++
			wire.inject(t, bad)
			eventually(t, "the wrong checksum is counted", func() bool { return e.drops.count(packet.DropChecksum) == 1 })
			if !v6 {
				bad = bytes.Clone(plain)
				bad[22]-- // the TTL, without a new header checksum: elsewhere the kernel drops that
				wire.inject(t, bad)
				eventually(t, "the wrong header is counted", func() bool { return e.drops.count(packet.DropChecksum) == 2 })
			}

			src, dst, message := addr1, Group4, payload(theirs)
			if v6 {
				src, dst = link1, Group6
			}
			must(t, e.Send(src, dst, message))
			sent := wire.next(t)
			if sent == nil || !bytes.Equal(sent[6:12], theirs[6:12]) || !bytes.Equal(payload(sent), message) {
				t.Errorf("sent % x, want it from % x", sent, theirs[6:12])
			}
			if got := len(e.all()); got != 2 {
				t.Errorf("%d adverts arrived, want 2: our own is not for us", got)
			}

			if on, below := w.joined(t, "vrrp.51", dst.String()), w.joined(t, w.name, dst.String()); on || !below {
				t.Errorf("the group is joined by the link: %v, and by the interface below: %v; want it below alone", on, below)
			}
		})
	}
}
