package vmac

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
)

// Kernel makes and removes links. Errors wrap the kernel's errno: EEXIST the name is taken, ENODEV no such link,
// EOPNOTSUPP no macvlan.
type Kernel interface {
	// State reads all links.
	State() (host.State, error)
	// Add makes a link, down, that makes no IPv6 address of its own, and returns its index.
	Add(l Link, parent int, alias string) (index int, err error)
	// Adjust sets the MTU and the interface group of a link and takes it up.
	Adjust(index, mtu int, group uint32) error
	// Delete removes a link.
	Delete(index int) error
}

// Settings are the values below /proc/sys.
type Settings interface {
	// Get returns a value without the line's end; an error that is fs.ErrNotExist says that there is none.
	Get(path string) (string, error)
	Set(path, value string) error
}

// Netlink is the real kernel, in the network namespace of the thread that opened it.
type Netlink struct {
	*host.Netlink
	handle *netlink.Handle
}

var _ Kernel = (*Netlink)(nil)

// OpenNetlink opens the kernel; reader reads its state. Changing links needs CAP_NET_ADMIN.
func OpenNetlink(reader *host.Netlink) (*Netlink, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket for links: %w", err)
	}
	return &Netlink{reader, h}, nil
}

// Close frees the socket; that of the reader stays open.
func (n *Netlink) Close() { n.handle.Close() }

// Add implements Kernel.
func (n *Netlink) Add(l Link, parent int, alias string) (int, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.HardwareAddr = l.Name, parent, net.HardwareAddr(l.MAC[:])
	below, err := n.handle.LinkByIndex(parent)
	if err != nil {
		return 0, fmt.Errorf("finding %s: %w", l.Parent, noDevice(err))
	}
	attrs.Group = below.Attrs().Group
	if l.Group != ParentGroup {
		attrs.Group = uint32(l.Group)
	}
	link := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_PRIVATE}
	if err := n.handle.LinkAdd(link); err != nil {
		return 0, fmt.Errorf("making it: %w", err)
	}
	index := link.Attrs().Index
	err = n.handle.LinkSetAlias(link, alias)
	if err == nil {
		if err = n.handle.LinkSetIP6AddrGenMode(link, 1); errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) {
			err = nil // a kernel without IPv6
		}
	}
	if err == nil && l.Notify {
		err = n.handle.LinkSetGroup(below, int(below.Attrs().Group))
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("setting it up: %w", err), n.Delete(index))
	}
	return index, nil
}

// Adjust implements Kernel.
func (n *Netlink) Adjust(index, mtu int, group uint32) error {
	link, err := n.handle.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("finding it: %w", noDevice(err))
	}
	if link.Attrs().MTU != mtu {
		if err := n.handle.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("setting its MTU to %d: %w", mtu, err)
		}
	}
	if link.Attrs().Group != group {
		if err := n.handle.LinkSetGroup(link, int(group)); err != nil {
			return fmt.Errorf("putting it into group %d: %w", group, err)
		}
	}
	if err := n.handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("taking it up: %w", err)
	}
	return nil
}

// Delete implements Kernel.
func (n *Netlink) Delete(index int) error {
	if err := n.handle.LinkDel(&netlink.Macvlan{LinkAttrs: netlink.LinkAttrs{Index: index}}); err != nil {
		return fmt.Errorf("removing it: %w", err)
	}
	return nil
}

// noDevice gives the library's error for a missing link its errno.
func noDevice(err error) error {
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return unix.ENODEV
	}
	return err
}

// Sysctl is the real kernel's settings, those of the network namespace of the calling thread.
type Sysctl struct{}

var _ Settings = Sysctl{}

// Get implements Settings.
func (Sysctl) Get(path string) (string, error) {
	b, err := os.ReadFile("/proc/sys/" + path)
	return strings.TrimSpace(string(b)), err
}

// Set implements Settings.
func (Sysctl) Set(path, value string) error {
	f, err := os.OpenFile("/proc/sys/"+path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
