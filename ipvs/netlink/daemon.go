package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// The commands and attributes of what is no service (include/uapi/linux/ip_vs.h); cloudflare/ipvs has no daemons.
const (
	cmdNewDaemon = 9
	cmdDelDaemon = 10
	cmdGetDaemon = 11
	cmdSetConfig = 12
	cmdGetConfig = 13
	cmdGetInfo   = 15

	attrDaemon    = 3
	attrTCP       = 4
	attrTCPFin    = 5
	attrUDP       = 6
	infoTableSize = 2
	daemonState   = 1
	daemonLink    = 2
	daemonID      = 3
	daemonMaxLen  = 4
	daemonGroup   = 5
	daemonGroup6  = 6
	daemonPort    = 7
	daemonTTL     = 8
)

// controlTimeout bounds one request. A daemon that stops finishes what it is at, and the kernel waits for it.
const controlTimeout = 10 * time.Second

// unanswered is how long the answer to a request may take that was done when it had been sent.
const unanswered = 200 * time.Millisecond

// control makes single requests of its own.
type control struct {
	c      *genetlink.Conn
	family uint16
}

func openControl() (*control, error) {
	c, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	f, err := c.GetFamily("IPVS")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("looking up IPVS in generic netlink: %w", err), c.Close())
	}
	_ = c.SetOption(netlink.ExtendedAcknowledge, true) // better error texts alone depend on it
	return &control{c: c, family: f.ID}, nil
}

// do makes one request. fill may be nil.
func (k *control) do(command uint8, flags netlink.HeaderFlags, fill func(*netlink.AttributeEncoder)) ([]genetlink.Message, error) {
	m, err := message(command, fill)
	if err != nil {
		return nil, err
	}
	if err := k.c.SetDeadline(time.Now().Add(controlTimeout)); err != nil {
		return nil, fmt.Errorf("limiting a request to IPVS: %w", err)
	}
	return k.c.Execute(m, k.family, netlink.Request|flags)
}

// message encodes a request. fill may be nil.
func message(command uint8, fill func(*netlink.AttributeEncoder)) (m genetlink.Message, err error) {
	e := netlink.NewAttributeEncoder()
	if fill != nil {
		fill(e)
	}
	m.Header = genetlink.Header{Command: command, Version: genlVersion}
	if m.Data, err = e.Encode(); err != nil {
		return m, fmt.Errorf("encoding a request to IPVS: %w", err)
	}
	return m, nil
}

// daemons lists the sync daemons.
func (k *control) daemons() (out []ipvs.Daemon, err error) {
	messages, err := k.do(cmdGetDaemon, netlink.Dump, nil)
	if err != nil {
		return nil, fmt.Errorf("listing the sync daemons: %w", err)
	}
	for _, m := range messages {
		d, err := decodeDaemon(m.Data)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// controlled runs a request. When IPVS has gone the error is [ipvs.ErrAbsent]: loaded again, its family has another number.
func (c *Conn) controlled(f func(*control) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := f(c.control)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.broken = errTimeout // what is answered late must not answer the next request
	case errors.Is(err, unix.ENOENT): // IPVS itself never says so
		err = fmt.Errorf("%w: %w", ipvs.ErrAbsent, err)
		c.broken = err
	}
	return err
}

// Daemons returns the sync daemons that run in this namespace.
func (c *Conn) Daemons() (out []ipvs.Daemon, err error) {
	err = c.controlled(func(k *control) error {
		out, err = k.daemons()
		return err
	})
	return out, err
}

func decodeDaemon(b []byte) (d ipvs.Daemon, err error) {
	top, err := netlink.NewAttributeDecoder(b)
	for err == nil && top.Next() {
		if top.Type() == attrDaemon {
			top.Nested(func(a *netlink.AttributeDecoder) error { decodeDaemonAttributes(a, &d); return nil })
		}
	}
	if err == nil {
		err = top.Err()
	}
	if err != nil {
		return d, fmt.Errorf("reading a sync daemon: %w", err)
	}
	return d, nil
}

func decodeDaemonAttributes(a *netlink.AttributeDecoder, d *ipvs.Daemon) {
	for a.Next() {
		switch a.Type() {
		case daemonState:
			d.Role = ipvs.Role(a.Uint32())
		case daemonLink:
			d.Interface = a.String()
		case daemonID:
			d.ID = uint8(a.Uint32())
		case daemonMaxLen:
			d.MaxLen = a.Uint16()
		case daemonPort:
			d.Port = a.Uint16()
		case daemonTTL:
			d.TTL = a.Uint8()
		case daemonGroup, daemonGroup6:
			if g, ok := netip.AddrFromSlice(a.Bytes()); ok && !g.IsUnspecified() {
				d.Group = g
			}
		}
	}
}

// StartDaemon starts a sync daemon. A role that runs already is EEXIST, an interface that is not there ENODEV; EINVAL
// is what the kernel answers while a service has a server of another address family.
func (c *Conn) StartDaemon(d ipvs.Daemon) error {
	d = d.Normal()
	err := c.controlled(func(k *control) error {
		_, err := k.do(cmdNewDaemon, netlink.Acknowledge, func(e *netlink.AttributeEncoder) {
			e.Nested(attrDaemon, func(n *netlink.AttributeEncoder) error {
				n.Uint32(daemonState, uint32(d.Role))
				n.String(daemonLink, d.Interface)
				n.Uint32(daemonID, uint32(d.ID))
				if d.MaxLen != 0 {
					n.Uint16(daemonMaxLen, d.MaxLen)
				}
				group := uint16(daemonGroup)
				if d.Group.Is6() {
					group = daemonGroup6
				}
				n.Bytes(group, d.Group.AsSlice())
				n.Uint16(daemonPort, d.Port)
				n.Uint8(daemonTTL, d.TTL)
				return nil
			})
		})
		return err
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("ipvsadm %s: %s%w", d, daemonRemedy(err, d), err)
}

// daemonRemedy explains what an operator can do something about.
func daemonRemedy(err error, d ipvs.Daemon) string {
	switch {
	case errors.Is(err, unix.ENODEV):
		return "there is no interface " + d.Interface + ": name another in lvs_sync_daemon, or make it: "
	case errors.Is(err, unix.EINVAL):
		return "the kernel runs no sync daemon while a service has a server of the other address family (lvs_method TUN, IPv6 under IPv4 or IPv4 under IPv6); take those servers out, or lvs_sync_daemon: "
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return "interface " + d.Interface + " has no address of the group's family to send from: "
	case errors.Is(err, unix.EPERM):
		return "not permitted: run as root or with CAP_NET_ADMIN: "
	}
	return ""
}

// StopDaemon stops the sync daemon of a role. What it has not sent yet, up to two seconds of news, is lost. One that
// does not run is ESRCH.
func (c *Conn) StopDaemon(r ipvs.Role) error {
	return c.controlled(func(k *control) error {
		if err := k.stop(r); err != nil {
			return fmt.Errorf("ipvsadm --stop-daemon %s: %w", r, err)
		}
		return nil
	})
}

// stop makes the request. The kernel does all of it before the sending returns, but never answers when the daemon's
// thread had not run once yet (kthread_stop is EINTR then): without an answer its list of daemons tells.
func (k *control) stop(r ipvs.Role) error {
	m, err := message(cmdDelDaemon, func(e *netlink.AttributeEncoder) {
		e.Nested(attrDaemon, func(n *netlink.AttributeEncoder) error { n.Uint32(daemonState, uint32(r)); return nil })
	})
	if err == nil {
		err = k.c.SetDeadline(time.Now().Add(controlTimeout))
	}
	if err == nil {
		_, err = k.c.Send(m, k.family, netlink.Request|netlink.Acknowledge)
	}
	if err == nil {
		err = k.c.SetDeadline(time.Now().Add(unanswered))
	}
	if err != nil {
		return err
	}
	if _, _, err = k.c.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	left, listErr := k.daemons()
	if listErr == nil && !slices.ContainsFunc(left, func(d ipvs.Daemon) bool { return d.Role == r }) {
		return nil
	}
	return errors.Join(err, listErr)
}

// Timeouts returns those in force.
func (c *Conn) Timeouts() (t ipvs.Timeouts, err error) {
	err = c.controlled(func(k *control) error {
		values, err := k.numbers(cmdGetConfig)
		t = ipvs.Timeouts{
			TCP:    time.Duration(values[attrTCP]) * time.Second,
			TCPFin: time.Duration(values[attrTCPFin]) * time.Second,
			UDP:    time.Duration(values[attrUDP]) * time.Second,
		}
		return err
	})
	return t, err
}

// SetTimeouts changes those that are not zero, in whole seconds.
func (c *Conn) SetTimeouts(t ipvs.Timeouts) error {
	return c.controlled(func(k *control) error {
		_, err := k.do(cmdSetConfig, netlink.Acknowledge, func(e *netlink.AttributeEncoder) {
			e.Uint32(attrTCP, uint32(t.TCP/time.Second))
			e.Uint32(attrTCPFin, uint32(t.TCPFin/time.Second))
			e.Uint32(attrUDP, uint32(t.UDP/time.Second))
		})
		if err != nil {
			return fmt.Errorf("setting the IPVS timeouts to %v: %w", t, err)
		}
		return nil
	})
}

// TableSize returns how many buckets the kernel's table of connections has.
func (c *Conn) TableSize() (n int, err error) {
	err = c.controlled(func(k *control) error {
		values, err := k.numbers(cmdGetInfo)
		n = int(values[infoTableSize])
		return err
	})
	return n, err
}

// numbers asks for a message of 32-bit numbers.
func (k *control) numbers(command uint8) (map[uint16]uint32, error) {
	messages, err := k.do(command, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("asking IPVS for its settings: %w", err)
	}
	out := map[uint16]uint32{}
	for _, m := range messages {
		a, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return nil, fmt.Errorf("reading the settings of IPVS: %w", err)
		}
		a.ByteOrder = binary.NativeEndian
		for a.Next() {
			if len(a.Bytes()) == 4 {
				out[a.Type()] = a.Uint32()
			}
		}
		if err := a.Err(); err != nil {
			return nil, fmt.Errorf("reading the settings of IPVS: %w", err)
		}
	}
	return out, nil
}
