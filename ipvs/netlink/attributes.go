package netlink

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// attributes is a row of netlink attributes in the making. Thousands of changes are made
// at once: the encoder of the library, which is used for everything else, takes some
// thirty allocations for one of them.
type attributes []byte

const attrHeader = 4 // length and type, in the byte order of the machine

// bytes adds an attribute; the next one begins at a multiple of four.
func (a *attributes) bytes(t uint16, value []byte) {
	a.header(t, len(value))
	*a = append(*a, value...)
	a.pad()
}

// string adds a text, which ends with a zero.
func (a *attributes) string(t uint16, value string) {
	a.header(t, len(value)+1)
	*a = append(append(*a, value...), 0)
	a.pad()
}

func (a *attributes) uint16(t, value uint16) {
	a.header(t, 2)
	*a = binary.NativeEndian.AppendUint16(*a, value)
	a.pad()
}

func (a *attributes) uint32(t uint16, value uint32) {
	a.header(t, 4)
	*a = binary.NativeEndian.AppendUint32(*a, value)
}

// port adds a number in the byte order of the network.
func (a *attributes) port(t, value uint16) {
	a.header(t, 2)
	*a = binary.BigEndian.AppendUint16(*a, value)
	a.pad()
}

// addr adds an address of 4 or 16 bytes.
func (a *attributes) addr(t uint16, addr netip.Addr) {
	if addr.Is4() {
		b := addr.As4()
		a.bytes(t, b[:])
		return
	}
	b := addr.As16()
	a.bytes(t, b[:])
}

// begin begins an attribute that holds others, and end ends it.
func (a *attributes) begin(t uint16) (at int) {
	at = len(*a)
	a.header(t|unix.NLA_F_NESTED, 0)
	return at
}

func (a *attributes) end(at int) {
	binary.NativeEndian.PutUint16((*a)[at:], uint16(len(*a)-at))
}

func (a *attributes) header(t uint16, length int) {
	*a = binary.NativeEndian.AppendUint16(*a, uint16(attrHeader+length))
	*a = binary.NativeEndian.AppendUint16(*a, t)
}

func (a *attributes) pad() {
	for len(*a)%4 != 0 {
		*a = append(*a, 0)
	}
}
