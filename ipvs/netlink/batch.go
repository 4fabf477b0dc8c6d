package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// batchSize is how many changes go to the kernel in one system call. Their refusals must fit the receive buffer.
const (
	batchSize  = 100
	readBuffer = 1 << 20
)

// The kernel's numbers, include/uapi/linux/ip_vs.h.
const (
	genlVersion = 1

	attrService = 1
	attrDest    = 2

	svcAF        = 1
	svcProtocol  = 2
	svcAddr      = 3
	svcPort      = 4
	svcFWMark    = 5
	svcScheduler = 6
	svcFlags     = 7
	svcTimeout   = 8
	svcNetmask   = 9
	svcEngine    = 11

	destAddr     = 1
	destPort     = 2
	destMethod   = 3
	destWeight   = 4
	destUpper    = 5
	destLower    = 6
	destFamily   = 11
	destTunType  = 13
	destTunPort  = 14
	destTunFlags = 15
)

// commands by ipvs.OpKind: NEW, SET and DEL of services, then of destinations.
var commands = [...]uint8{
	ipvs.AddService: 1, ipvs.EditService: 2, ipvs.DelService: 3,
	ipvs.AddDestination: 5, ipvs.EditDestination: 6, ipvs.DelDestination: 7,
}

// batcher sends many changes in one system call and matches the answers by sequence number.
type batcher struct {
	c      socket
	family uint16
}

// socket is what a batcher needs of a netlink connection.
type socket interface {
	SendMessages(m []netlink.Message) ([]netlink.Message, error)
	Receive() ([]netlink.Message, error)
	SetDeadline(t time.Time) error
	Close() error
}

func openBatcher() (*batcher, error) {
	c, err := netlink.Dial(unix.NETLINK_GENERIC, nil)
	if err != nil {
		return nil, fmt.Errorf("opening generic netlink: %w", err)
	}
	f, err := genetlink.NewConn(c).GetFamily("IPVS")
	if err == nil {
		err = c.SetReadBuffer(readBuffer)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("looking up IPVS in generic netlink: %w", err), c.Close())
	}
	// Only better error texts are lost where the kernel does not know it.
	_ = c.SetOption(netlink.ExtendedAcknowledge, true)
	return &batcher{c: c, family: f.ID}, nil
}

func (b *batcher) close() error {
	if err := b.c.Close(); err != nil {
		return fmt.Errorf("closing the netlink connection for batches: %w", err)
	}
	return nil
}

// apply returns one error for each operation. After a failure of the connection itself all that is left fails alike.
func (b *batcher) apply(ops []ipvs.Op) []error {
	errs := make([]error, len(ops))
	for start := 0; start < len(ops); start += batchSize {
		end := min(start+batchSize, len(ops))
		if err := b.send(ops[start:end], errs[start:end]); err != nil {
			for i := end; i < len(ops); i++ {
				errs[i] = err
			}
			break
		}
	}
	return errs
}

// send makes one batch and fills in its errors. The error it returns is one of the connection.
func (b *batcher) send(ops []ipvs.Op, errs []error) error {
	msgs := make([]netlink.Message, len(ops))
	for i, op := range ops {
		msgs[i] = netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(b.family), Flags: netlink.Request}, Data: encode(op)}
	}
	// The kernel works in order and answers what it refuses in any case: once the last one is answered, what it has said
	// nothing of is done. An answer to each would take as long as the changes.
	msgs[len(msgs)-1].Header.Flags |= netlink.Acknowledge
	err := b.c.SetDeadline(time.Now().Add(Timeout))
	if err == nil {
		msgs, err = b.c.SendMessages(msgs)
	}
	if err != nil {
		for i := range errs {
			errs[i] = connError(err)
		}
		return connError(err)
	}
	waiting := make(map[uint32]int, len(msgs))
	for i := range msgs {
		waiting[msgs[i].Header.Sequence] = i
	}
	return b.collect(waiting, msgs[len(msgs)-1].Header.Sequence, errs)
}

// collect reads until the last message is answered. Answers to earlier, given up messages are passed over.
func (b *batcher) collect(waiting map[uint32]int, last uint32, errs []error) error {
	for {
		answers, err := b.c.Receive()
		var refused *netlink.OpError
		if errors.As(err, &refused) && refused.Sequence != 0 {
			if i, ok := waiting[refused.Sequence]; ok {
				errs[i] = err
				delete(waiting, refused.Sequence)
			}
			if refused.Sequence == last {
				return nil
			}
			continue
		}
		if err != nil {
			err = connError(err)
			for _, i := range waiting {
				errs[i] = err
			}
			return err
		}
		for _, m := range answers {
			if m.Header.Type == netlink.Error && m.Header.Sequence == last {
				return nil
			}
		}
	}
}

func connError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errTimeout
	}
	return fmt.Errorf("talking to IPVS: %w", err)
}

// encode builds a message: the header of generic netlink, and the attributes of a change.
func encode(op ipvs.Op) []byte {
	a := make(attributes, 4, 256) // longer than nearly all are
	a[0], a[1] = commands[op.Kind], genlVersion
	nest := a.begin(attrService)
	encodeService(&a, op.Service.Normal(), op.Kind == ipvs.AddService || op.Kind == ipvs.EditService)
	a.end(nest)
	if op.OnDestination() {
		nest = a.begin(attrDest)
		encodeDestination(&a, op.Destination, op.Kind != ipvs.DelDestination)
		a.end(nest)
	}
	return a
}

func encodeService(a *attributes, s ipvs.Service, whole bool) {
	family := uint16(unix.AF_INET)
	if s.IPv6 {
		family = unix.AF_INET6
	}
	a.uint16(svcAF, family)
	if s.FWMark != 0 {
		a.uint32(svcFWMark, s.FWMark)
	} else {
		a.uint16(svcProtocol, uint16(s.Protocol))
		a.addr(svcAddr, s.Address.Addr())
		a.port(svcPort, s.Address.Port())
	}
	if !whole {
		return
	}
	c := toService(s)
	a.string(svcScheduler, s.Scheduler)
	a.string(svcEngine, s.Engine) // left out it would be taken away, too; empty it is meant
	// The flags, then the mask of those that are meant.
	a.bytes(svcFlags, binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, uint32(c.Flags)), ^uint32(0)))
	a.uint32(svcTimeout, c.Timeout)
	if s.IPv6 {
		a.uint32(svcNetmask, uint32(s.Granularity))
	} else {
		a.bytes(svcNetmask, c.Netmask.AsSlice())
	}
}

func encodeDestination(a *attributes, d ipvs.Destination, whole bool) {
	family := uint16(unix.AF_INET)
	if d.Address.Addr().Is6() {
		family = unix.AF_INET6
	}
	a.uint16(destFamily, family)
	a.addr(destAddr, d.Address.Addr())
	a.port(destPort, d.Address.Port())
	if !whole {
		return
	}
	a.uint32(destMethod, uint32(d.Method))
	a.uint32(destWeight, uint32(d.Weight))
	a.uint32(destUpper, d.Upper)
	a.uint32(destLower, d.Lower)
	a.bytes(destTunType, []byte{uint8(d.Tunnel.Type)})
	a.port(destTunPort, d.Tunnel.Port)
	a.uint16(destTunFlags, uint16(d.Tunnel.Flags))
}
