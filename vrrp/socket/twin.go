package socket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"vipd/vrrp/packet"
)

// HearTwin listens on an interface for an advert that another sends from src, an IPv4
// address of this machine, until ctx ends. It returns the sender's MAC address; nil
// when there was none. The kernel drops such packets as martians before any raw
// socket, so this listens to frames; as every frame of the interface is looked at,
// it should not listen all the time.
func HearTwin(ctx context.Context, index int, src netip.Addr) (net.HardwareAddr, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // 0: nothing yet
	if err != nil {
		return nil, fmt.Errorf("listening for adverts from %v: %w", src, err)
	}
	file := os.NewFile(uintptr(fd), "twin")
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("listening for adverts from %v: %w", src, err)
	}
	ctl := raw.Control(func(fd uintptr) {
		if err = filterTwin(int(fd), src); err == nil {
			err = unix.Bind(int(fd), &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_IP), Ifindex: index})
		}
	})
	if err = errors.Join(ctl, err); err != nil {
		return nil, fmt.Errorf("listening for adverts from %v: %w", src, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var mac net.HardwareAddr
	b := make([]byte, 128)
	read := raw.Read(func(fd uintptr) bool {
		var from unix.Sockaddr
		_, from, err = unix.Recvfrom(int(fd), b, 0)
		if l, ok := from.(*unix.SockaddrLinklayer); ok {
			mac = net.HardwareAddr(l.Addr[:min(int(l.Halen), len(l.Addr))])
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	if ctx.Err() != nil && mac == nil {
		return nil, nil
	}
	if err = errors.Join(read, err); err != nil {
		return nil, fmt.Errorf("listening for adverts from %v: %w", src, err)
	}
	return mac, nil
}

// filterTwin lets IPv4 packets of VRRP from src through that this machine does not
// send.
func filterTwin(fd int, src netip.Addr) error {
	four := src.As4()
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 5},
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: packet.Protocol, SkipTrue: 3},
		bpf.LoadAbsolute{Off: 12, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(four[:]), SkipTrue: 1},
		bpf.RetConstant{Val: 128},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(program))
	for i, p := range program {
		filter[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

func bigEndian(v uint16) uint16 { return v<<8 | v>>8 }
