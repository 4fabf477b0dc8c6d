package socket

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// MaxClaims is how many addresses HearClaims can ask for at once: its filter has room
// for no more.
const MaxClaims = 1000

// probeGap lies between two probes.
const probeGap = 5 * time.Millisecond

// Lengths and offsets of ARP for IPv4 on Ethernet (RFC 826), without the link's header.
const (
	arpLength = 28
	arpSender = 14 // the sender's IPv4 address; its MAC address is the six bytes before
)

// Claim is an address that another machine takes for its own.
type Claim struct {
	Address netip.Addr
	MAC     net.HardwareAddr
}

// HearClaims asks on an interface who has the given IPv4 addresses, and listens until ctx
// ends for machines that say so, in answer or by themselves. It asks with ARP probes
// (RFC 5227 §1.1), which change what nobody remembers. mac is the interface's own. A
// claim by a frame that this machine sends is none.
func HearClaims(ctx context.Context, index int, mac [6]byte, addrs []netip.Addr) ([]Claim, error) {
	addrs = addrs[:min(len(addrs), MaxClaims)]
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // 0: nothing yet
	if err != nil {
		return nil, fmt.Errorf("listening for claims: %w", err)
	}
	file := os.NewFile(uintptr(fd), "claims")
	defer file.Close()
	if err := filterClaims(fd, addrs); err != nil {
		return nil, fmt.Errorf("listening for claims: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: index}); err != nil {
		return nil, fmt.Errorf("listening for claims: %w", err)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("listening for claims: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	defer stop()
	q := inquiry{file: file, raw: raw, index: index, mac: mac}
	for _, a := range addrs {
		if err := q.ask(a); err != nil && ctx.Err() == nil {
			return q.heard, fmt.Errorf("asking who has %v: %w", a, err)
		}
		if err := q.hear(time.Now().Add(probeGap)); err != nil && ctx.Err() == nil {
			return q.heard, err
		}
	}
	if err := q.hear(time.Time{}); err != nil && ctx.Err() == nil {
		return q.heard, err
	}
	return q.heard, nil
}

// inquiry is one run of HearClaims.
type inquiry struct {
	file  *os.File
	raw   syscall.RawConn
	index int
	mac   [6]byte
	heard []Claim
}

// ask sends a probe: who has a? The sender gives no address of its own.
func (q *inquiry) ask(a netip.Addr) error {
	b := make([]byte, 0, arpLength)
	b = append(b, 0, 1, 8, 0, 6, 4, 0, 1) // Ethernet, IPv4, lengths of both addresses, request
	b = append(append(b, q.mac[:]...), 0, 0, 0, 0)
	b = append(append(b, 0, 0, 0, 0, 0, 0), a.AsSlice()...)
	to := unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ARP), Ifindex: q.index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	var err error
	return errors.Join(q.raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), b, 0, &to) }), err)
}

// hear notes claims until a time; zero: until the file is closed.
func (q *inquiry) hear(until time.Time) error {
	if err := q.file.SetReadDeadline(until); err != nil {
		return fmt.Errorf("listening for claims: %w", err)
	}
	b := make([]byte, 64)
	for {
		var n int
		var err error
		read := q.raw.Read(func(fd uintptr) bool {
			n, _, err = unix.Recvfrom(int(fd), b, 0)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case errors.Is(read, os.ErrDeadlineExceeded):
			return nil
		case read != nil || err != nil:
			return fmt.Errorf("listening for claims: %w", errors.Join(read, err))
		case n >= arpLength:
			q.note(b)
		}
	}
}

// note adds what an ARP message says, once.
func (q *inquiry) note(b []byte) {
	c := Claim{netip.AddrFrom4([4]byte(b[arpSender:])), net.HardwareAddr(bytes.Clone(b[arpSender-6 : arpSender]))}
	for _, h := range q.heard {
		if h.Address == c.Address && bytes.Equal(h.MAC, c.MAC) {
			return
		}
	}
	if len(q.heard) < MaxClaims {
		q.heard = append(q.heard, c)
	}
}

// filterClaims lets ARP messages through whose sender has one of the addresses and is
// not this machine.
func filterClaims(fd int, addrs []netip.Addr) error {
	program := []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.LoadAbsolute{Off: 0, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 1<<16 | unix.ETH_P_IP, SkipTrue: 1}, // of Ethernet and IPv4
		bpf.RetConstant{Val: 0},
		bpf.LoadAbsolute{Off: arpSender, Size: 4},
	}
	for _, a := range addrs {
		four := a.As4()
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(four[:]), SkipTrue: 1}, bpf.RetConstant{Val: arpLength})
	}
	return attachFilter(fd, append(program, bpf.RetConstant{Val: 0})...)
}
