package engine

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Socket is the Port to the kernel: one AF_PACKET socket that receives
// nothing and sends on any interface of the network namespace it was opened
// in. It is for one sender at a time.
type Socket struct {
	fd int
	to unix.SockaddrLinklayer
}

// OpenSocket opens the socket. It needs CAP_NET_RAW.
func OpenSocket() (*Socket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the packet socket for announcements (needs CAP_NET_RAW): %w", err)
	}
	return &Socket{fd: fd}, nil
}

// Send sends an Ethernet frame. Errors are the kernel's: ENOBUFS when the
// device queue is full, ENETDOWN, ENXIO or ENODEV when the interface is.
func (s *Socket) Send(ifindex int, frame []byte) error {
	const header = 14
	if len(frame) < header {
		return fmt.Errorf("sending a frame of %d bytes: %w", len(frame), unix.EINVAL)
	}
	// The kernel wants the protocol in network byte order.
	s.to.Protocol = binary.NativeEndian.Uint16(frame[12:14])
	s.to.Ifindex = ifindex
	s.to.Halen = 6
	copy(s.to.Addr[:], frame[:6])
	for {
		if err := unix.Sendto(s.fd, frame, 0, &s.to); err != unix.EINTR {
			return err
		}
	}
}

// Close closes the socket.
func (s *Socket) Close() error {
	if err := unix.Close(s.fd); err != nil {
		return fmt.Errorf("closing the packet socket: %w", err)
	}
	return nil
}
