package direct

import (
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// hold takes a port of an address of ours, any with port 0, so that nobody else
// has it, and so that the kernel, which gets the peer's segments as well, does not
// answer them with resets: a listener takes them, and its filter drops them all.
func hold(a netip.AddrPort) (fd int, local netip.AddrPort, err error) {
	fd, err = unix.Socket(family(a.Addr()), unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return -1, local, err
	}
	drop, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{}})
	if err == nil {
		err = attach(fd, drop)
	}
	if err == nil {
		err = unix.Bind(fd, inet(a))
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	var sa unix.Sockaddr
	if err == nil {
		sa, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, local, err
	}
	port := 0
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		port = sa.Port
	case *unix.SockaddrInet6:
		port = sa.Port
	}
	return fd, netip.AddrPortFrom(a.Addr(), uint16(port)), nil
}

func inet(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// listen gives a packet socket on which the segments from remote to local are
// read, whatever the kernel makes of them.
func listen(index int, remote, local netip.AddrPort) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	program, err := bpf.Assemble(filter(remote, local))
	if err == nil {
		err = attach(fd, program)
	}
	if err == nil { // only now: nothing else must come in
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ethertype(remote.Addr()), Ifindex: index})
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "packet"), nil
}

// ethertype is that of a family, in the order of the network.
func ethertype(a netip.Addr) uint16 {
	n := uint16(unix.ETH_P_IP)
	if a.Is6() {
		n = unix.ETH_P_IPV6
	}
	return binary.NativeEndian.Uint16([]byte{byte(n >> 8), byte(n)})
}

// filter lets whole TCP segments of one connection pass.
func filter(remote, local netip.AddrPort) []bpf.Instruction {
	var tests []bpf.Instruction // each loads and compares
	want := func(offset, size uint32, value uint32) {
		tests = append(tests, bpf.LoadAbsolute{Off: offset, Size: int(size)}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: value})
	}
	words := func(offset uint32, a netip.Addr) {
		for b := a.AsSlice(); len(b) > 0; b, offset = b[4:], offset+4 {
			want(offset, 4, binary.BigEndian.Uint32(b))
		}
	}
	ports := uint32(remote.Port())<<16 | uint32(local.Port())
	if remote.Addr().Is6() {
		want(6, 1, protocolTCP)
		words(8, remote.Addr())
		words(24, local.Addr())
		want(40, 4, ports)
	} else {
		want(9, 1, protocolTCP)
		words(12, remote.Addr())
		words(16, local.Addr())
		tests = append(tests, bpf.LoadMemShift{Off: 0}, bpf.LoadIndirect{Off: 0, Size: 4}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: ports})
	}
	tests = append(tests, bpf.RetConstant{Val: 1 << 18}, bpf.RetConstant{})
	for i, t := range tests {
		if jump, ok := t.(bpf.JumpIf); ok {
			jump.SkipTrue = uint8(len(tests) - 2 - i)
			tests[i] = jump
		}
	}
	return tests
}

func attach(fd int, program []bpf.RawInstruction) error {
	list := make([]unix.SockFilter, len(program))
	for i, p := range program {
		list[i] = unix.SockFilter{Code: p.Op, Jt: p.Jt, Jf: p.Jf, K: p.K}
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(list)), Filter: &list[0]})
}
