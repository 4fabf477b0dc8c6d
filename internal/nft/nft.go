// Package nft opens nftables for who has rules there, in the network namespace of the calling thread.
package nft

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// Limit is how long one transaction, or one look at the tables, may take.
	Limit = 2 * time.Second
	// Space is for all elements and all acknowledgements of a transaction, in bytes.
	Space = 4 << 20
	// Chunk is how many elements go into one message: the length of an attribute has 16 bits.
	Chunk = 256
)

// ErrUnsupported says that the kernel has no nftables for the families ip and ip6.
var ErrUnsupported = errors.New("the kernel has no nftables for IP (module nf_tables with the families ip and ip6)")

// Dial returns a connection that never waits for ever: a kernel without nftables acknowledges nothing.
func Dial() (*nftables.Conn, error) {
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		// Refused for want of rights only; the defaults then have to do.
		_ = c.SetWriteBuffer(Space)
		_ = c.SetReadBuffer(Space)
		return c.SetDeadline(time.Now().Add(Limit))
	}))
	if err != nil {
		return nil, fmt.Errorf("opening nftables: %w", Support(err))
	}
	return c, nil
}

// Support says so, by ErrUnsupported, when an error means that there is no nftables at all,
// and what is missing when it means that vipd must not use it.
func Support(err error) error {
	for _, e := range []error{unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrUnsupported, e)
		}
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w (vipd needs CAP_NET_ADMIN: run it as root, or look at the CapabilityBoundingSet of its unit)", err)
	}
	return err
}
