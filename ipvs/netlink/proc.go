package netlink

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/netip"
	"time"

	"vipd/ipvs"
)

// Same reports whether the services of t are in the kernel as they are in t; other services do not matter. It costs a
// small part of what [Conn.Read] does: /proc/net/ip_vs shows services, schedulers, persistence, servers, methods and
// weights, and the kernel is asked only about what that file leaves out. In a table of more than a few hundred servers it
// does not see limits and tunnel details that others gave to servers of pools that should have none.
func (c *Conn) Same(t ipvs.Table) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == nil {
		return false, nil
	}
	text, err := c.readProc()
	if err != nil {
		return false, err
	}
	m := matcher{table: t, hz: c.hz, found: make(map[ipvs.Key]bool, len(t))}
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		m.line(line)
	}
	m.end()
	c.hz = m.hz
	if len(m.found) < len(t) || len(t) == 0 {
		return len(t) == 0, nil
	}
	return c.sameDetails(t)
}

// readProc reads the file from its start, into a buffer that is kept.
func (c *Conn) readProc() ([]byte, error) {
	if c.buf == nil {
		c.buf = make([]byte, 64<<10)
	}
	n := 0
	for {
		if n == len(c.buf) {
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		k, err := c.proc.ReadAt(c.buf[n:], int64(n))
		n += k
		switch {
		case errors.Is(err, io.EOF):
			return c.buf[:n], nil
		case err != nil:
			return nil, fmt.Errorf("reading /proc/net/ip_vs: %w", err)
		}
	}
}

// matcher compares the lines of /proc/net/ip_vs with a table.
type matcher struct {
	table ipvs.Table
	hz    int64
	found map[ipvs.Key]bool // services of the table that were seen just as they should be
	now   []candidate       // what the present service line may be: a firewall mark's family is not printed
}

type candidate struct {
	pool ipvs.Pool
	same bool
	seen int
}

func (m *matcher) line(b []byte) {
	dest := bytes.HasPrefix(b, []byte("  -> "))
	var f [8][]byte
	fields := split(b, f[:0])
	switch {
	case dest && len(fields) >= 4:
		m.destination(fields)
	case !dest && len(fields) >= 2:
		m.end()
		m.service(fields)
	}
}

// end closes the service whose lines have been read.
func (m *matcher) end() {
	for _, c := range m.now {
		if c.same && c.seen == len(c.pool.Destinations) {
			m.found[c.pool.Service.Key] = true
		}
	}
	m.now = m.now[:0]
}

// service handles "TCP 0A090064:0050 wlc persistent 360000 FFFFFFFF" and "FWM 00000007 rr".
func (m *matcher) service(f [][]byte) {
	var keys []ipvs.Key
	switch string(f[0]) {
	case "TCP", "UDP", "SCTP":
		p, _ := ipvs.ParseProtocol(string(f[0]))
		if a, ok := address(f[1]); ok {
			keys = []ipvs.Key{ipvs.AddressKey(p, a)}
		}
	case "FWM":
		if v, ok := hex(f[1]); ok {
			keys = []ipvs.Key{ipvs.MarkKey(uint32(v), false), ipvs.MarkKey(uint32(v), true)}
		}
	}
	for _, k := range keys {
		if p, ok := m.table[k]; ok {
			m.now = append(m.now, candidate{pool: p, same: m.sameService(p.Service, f[2:])})
		}
	}
}

func (m *matcher) sameService(s ipvs.Service, f [][]byte) bool {
	if len(f) == 0 || string(f[0]) != s.Scheduler {
		return false
	}
	f = f[1:]
	ops := len(f) > 0 && string(f[0]) == "ops"
	if ops {
		f = f[1:]
	}
	if ops != (s.Flags&ipvs.FlagOnePacket != 0) && !s.IPv6 { // not printed for IPv6 addresses
		return false
	}
	if len(f) < 3 {
		return s.Persistence == 0
	}
	jiffies, ok := decimal(f[1])
	mask, ok2 := hex(f[2])
	return ok && ok2 && s.Persistence > 0 && m.sameTime(jiffies, int64(s.Persistence/time.Second)) && sameMask(s, uint32(mask))
}

// sameTime compares jiffies with seconds. Their ratio is learned from the first service that has a plausible one.
func (m *matcher) sameTime(jiffies, seconds int64) bool {
	if m.hz == 0 {
		for _, hz := range []int64{100, 250, 300, 1000} {
			if jiffies == seconds*hz {
				m.hz = hz
			}
		}
	}
	return jiffies == seconds*m.hz
}

func sameMask(s ipvs.Service, mask uint32) bool {
	if s.IPv6 { // a prefix length, printed in network byte order
		return mask == uint32(s.Granularity) || mask == bits.ReverseBytes32(uint32(s.Granularity))
	}
	return mask == ^uint32(0)<<(32-s.Granularity)
}

// destination handles "-> 0A090015:0050 Route 1 0 0".
func (m *matcher) destination(f [][]byte) {
	if len(m.now) == 0 {
		return
	}
	a, ok := address(f[1])
	weight, ok2 := decimal(f[3])
	for i := range m.now {
		c := &m.now[i]
		d, known := c.pool.Destinations[a]
		c.seen++
		c.same = c.same && ok && ok2 && known && int64(d.Weight) == weight && forward(d.Method) == string(f[2])
	}
}

func forward(m ipvs.Method) string {
	return [...]string{ipvs.NAT: "Masq", ipvs.Local: "Local", ipvs.TUN: "Tunnel", ipvs.DR: "Route", ipvs.Bypass: "Bypass"}[m]
}

// address reads "0A090015:0050" or "[2001:0db8:0000:0000:0000:0000:0000:0001]:0050".
func address(b []byte) (netip.AddrPort, bool) {
	i := bytes.LastIndexByte(b, ':')
	if i < 0 {
		return netip.AddrPort{}, false
	}
	port, ok := hex(b[i+1:])
	host := b[:i]
	if len(host) == 8 {
		v, ok2 := hex(host)
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}), uint16(port)), ok && ok2
	}
	if len(host) != 41 {
		return netip.AddrPort{}, false
	}
	var a [16]byte
	for g := range 8 {
		v, ok2 := hex(host[1+5*g : 5+5*g])
		ok = ok && ok2
		a[2*g], a[2*g+1] = byte(v>>8), byte(v)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(a), uint16(port)), ok
}

func hex(b []byte) (v uint64, ok bool) {
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		case c >= 'A' && c <= 'F':
			v = v<<4 | uint64(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, len(b) > 0
}

func decimal(b []byte) (v int64, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, len(b) > 0
}

// split appends the words of b to f, at most cap(f) of them.
func split(b []byte, f [][]byte) [][]byte {
	for len(f) < cap(f) {
		b = bytes.TrimLeft(b, " ")
		if len(b) == 0 {
			break
		}
		i := bytes.IndexByte(b, ' ')
		if i < 0 {
			i = len(b)
		}
		f = append(f, b[:i])
		b = b[i:]
	}
	return f
}
