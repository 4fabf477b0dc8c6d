package connsync

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
)

// socketDrops adds up the drops of the sockets in text, which is /proc/net/udp or udp6, that are bound to an address;
// one of them, by its inode, is left out.
func socketDrops(text string, local netip.AddrPort, except uint64) (n uint64) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 13 {
			continue
		}
		a, ok := procAddress(f[1])
		if !ok || a != local {
			continue
		}
		inode, err := strconv.ParseUint(f[9], 10, 64)
		drops, err2 := strconv.ParseUint(f[12], 10, 64)
		if err == nil && err2 == nil && inode != except {
			n += drops
		}
	}
	return n
}

// procAddress reads "510000E0:2290": the address in words of the machine's byte order, the port in four hexadecimal digits.
func procAddress(s string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	p, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(b)%4 != 0 || len(port) != 4 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.BigEndian.PutUint32(b[i:], binary.NativeEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(p)), ok
}
