package firewall

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	kernelTime  = 2 * time.Second // for one transaction, and for one look at the tables
	socketSpace = 4 << 20         // for all elements and all acknowledgements of a transaction
	chunk       = 256             // elements of one message: the length of an attribute has 16 bits
	commentMax  = 120             // bytes that nft accepts in a comment
)

// NFT is the kernel's nftables, in the network namespace of the calling thread.
type NFT struct{}

var _ Kernel = NFT{}

// dial returns a connection that never waits for ever: a kernel without nftables acknowledges nothing.
func dial() (*nftables.Conn, error) {
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		// Refused for want of rights only; the defaults then have to do.
		_ = c.SetWriteBuffer(socketSpace)
		_ = c.SetReadBuffer(socketSpace)
		return c.SetDeadline(time.Now().Add(kernelTime))
	}))
	if err != nil {
		return nil, fmt.Errorf("opening nftables: %w", support(err))
	}
	return c, nil
}

// support says so when an error means that there is no nftables at all.
func support(err error) error {
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

// Commit implements Kernel.
func (NFT) Commit(ops []Op) error {
	c, err := dial()
	if err != nil {
		return err
	}
	b := &builder{Conn: c}
	for _, op := range ops {
		t := &nftables.Table{Name: op.Table, Family: layouts[op.Family].family}
		switch op.Kind {
		case OpDelete:
			b.DelTable(t)
		case OpCreate:
			b.create(op)
		case OpAdd:
			b.elements(t, op, b.SetAddElements)
		case OpRemove:
			b.elements(t, op, b.SetDeleteElements)
		}
	}
	if b.err == nil {
		b.err = support(b.Flush())
	}
	if b.err != nil {
		return fmt.Errorf("changing the nftables rules: %w", b.err)
	}
	return nil
}

// elements changes the elements of a table's sets.
func (b *builder) elements(t *nftables.Table, op Op, change func(*nftables.Set, []nftables.SetElement) error) {
	var plain, local, silent []nftables.SetElement
	for _, a := range op.Refused {
		if e := (nftables.SetElement{Key: addressKey(a)}); a.Interface == "" {
			plain = append(plain, e)
		} else {
			local = append(local, e)
		}
	}
	for _, l := range op.Silent {
		silent = append(silent, nftables.SetElement{Key: nameKey(l.Name), Val: indexValue(l.Parent)})
	}
	for _, s := range []struct {
		set      *nftables.Set
		elements []nftables.SetElement
	}{
		{&nftables.Set{Table: t, Name: setRefused, KeyType: layouts[op.Family].address}, plain},
		{linkSet(t), local},
		{silentSet(t), silent},
	} {
		for len(s.elements) > 0 {
			n := min(chunk, len(s.elements))
			if err := change(s.set, s.elements[:n]); err != nil && b.err == nil {
				b.err = err
			}
			s.elements = s.elements[n:]
		}
	}
}

// Watch implements Kernel. It does not look into what it hears: that comes from other programs.
func (NFT) Watch(ctx context.Context, changed func()) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("listening to nftables: %w", support(err))
	}
	defer c.Close()
	_ = c.SetReadBuffer(socketSpace) // an overflow is an event like any other
	if err := c.JoinGroup(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("listening to nftables: %w", support(err))
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	changed()
	for {
		_, err := c.Receive()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("listening to nftables: %w", err)
		}
		changed()
	}
}

// ownerKey marks a table as that of the vipd with this state directory.
func ownerKey(owner string) []byte {
	sum := sha256.Sum256([]byte(owner))
	return nameKey(hex.EncodeToString(sum[:])[:unix.IFNAMSIZ-1])
}

// ownerComment says whose a table is, for people.
func ownerComment(owner string) string { return owner[:min(len(owner), commentMax)] }
