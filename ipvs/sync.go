package ipvs

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Role is what a sync daemon of the kernel does. The numbers are the kernel's.
type Role uint32

// The roles. Both may run at once, each in a thread of its own.
const (
	SyncMaster Role = 1 // tells others of the connections here
	SyncBackup Role = 2 // takes those of others
)

// String returns ipvsadm's word.
func (r Role) String() string {
	switch r {
	case SyncMaster:
		return "master"
	case SyncBackup:
		return "backup"
	}
	return strconv.Itoa(int(r))
}

// What the kernel takes where a [Daemon] says nothing.
const (
	DefaultSyncPort = 8848
	DefaultSyncTTL  = 1
	// syncBackupMin is the shortest message that a backup thread makes room for, whatever it is told.
	syncBackupMin = 1024
	// syncMTU is the packet that a master fills, and the least that a backup makes room for, when they are told nothing.
	syncMTU = 1500
)

// DefaultSyncGroup is the multicast group of sync messages.
func DefaultSyncGroup() netip.Addr { return netip.AddrFrom4([4]byte{224, 0, 0, 81}) }

// Daemon is one sync daemon (thread) of the kernel.
type Daemon struct {
	Role      Role
	Interface string
	ID        uint8      // of its messages; a backup with 0 takes those of every id
	MaxLen    uint16     // bytes of a message; 0: what fills a packet of 1500 bytes, at a backup the MTU of the interface if that is larger
	Port      uint16     // 0: DefaultSyncPort
	TTL       uint8      // 0: DefaultSyncTTL
	Group     netip.Addr // invalid: DefaultSyncGroup
}

// Normal fills in what the kernel takes for nothing, but for MaxLen.
func (d Daemon) Normal() Daemon {
	if d.Port == 0 {
		d.Port = DefaultSyncPort
	}
	if d.TTL == 0 {
		d.TTL = DefaultSyncTTL
	}
	if !d.Group.IsValid() {
		d.Group = DefaultSyncGroup()
	}
	return d
}

// Does reports whether the daemon d, as a kernel shows it, is what want asks for.
func (d Daemon) Does(want Daemon) bool {
	d, want = d.Normal(), want.Normal()
	have := d.MaxLen
	d.MaxLen = want.MaxLen
	return d == want && (have == 0 || want.takes(have)) // a kernel before 4.3 shows no length
}

// takes reports whether a kernel that is asked for d runs with messages of at most n bytes (start_sync_thread in
// net/netfilter/ipvs/ip_vs_sync.c).
func (d Daemon) takes(n uint16) bool {
	headers := 20 + 8
	if d.Group.Is6() {
		headers = 40 + 8
	}
	switch usual := uint16(syncMTU - headers); {
	case d.MaxLen != 0 && d.Role == SyncBackup:
		return n == min(max(d.MaxLen, syncBackupMin), uint16(65535-headers))
	case d.MaxLen != 0:
		return n == min(d.MaxLen, uint16(65535-headers))
	case d.Role == SyncBackup:
		return n >= usual // it follows the MTU of the interface, if that is larger
	default:
		return n == usual
	}
}

// String returns the daemon as arguments of ipvsadm.
func (d Daemon) String() string {
	d = d.Normal()
	s := fmt.Sprintf("--start-daemon %s --mcast-interface %s --syncid %d", d.Role, d.Interface, d.ID)
	if d.MaxLen != 0 {
		s += fmt.Sprintf(" --sync-maxlen %d", d.MaxLen)
	}
	return s + fmt.Sprintf(" --mcast-group %s --mcast-port %d --mcast-ttl %d", d.Group, d.Port, d.TTL)
}

// DaemonChanges returns which roles are to be stopped and which daemons then started, so that a kernel that has the
// daemons have has those of want. What need not change is not touched.
func DaemonChanges(have, want []Daemon) (stop []Role, start []Daemon) {
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w Daemon) bool { return h.Does(w) }) {
			stop = append(stop, h.Role)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(have, func(h Daemon) bool { return h.Does(w) }) {
			start = append(start, w)
		}
	}
	return stop, start
}

// Timeouts are how long the kernel remembers an idle connection, in whole seconds. In a change 0 keeps what there is.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

// Differs reports whether the kernel's timeouts t are not what want asks for.
func (t Timeouts) Differs(want Timeouts) bool {
	differ := func(is, want time.Duration) bool { return want != 0 && is != want }
	return differ(t.TCP, want.TCP) || differ(t.TCPFin, want.TCPFin) || differ(t.UDP, want.UDP)
}

// With returns the timeouts in force when want was asked for.
func (t Timeouts) With(want Timeouts) Timeouts {
	return Timeouts{cmp.Or(want.TCP, t.TCP), cmp.Or(want.TCPFin, t.TCPFin), cmp.Or(want.UDP, t.UDP)}
}

// String returns "tcp 900s, tcpfin 120s, udp 300s", as ipvsadm orders them.
func (t Timeouts) String() string {
	return fmt.Sprintf("tcp %ds, tcpfin %ds, udp %ds", int(t.TCP.Seconds()), int(t.TCPFin.Seconds()), int(t.UDP.Seconds()))
}

// SyncMessage is what the header of a sync message says.
type SyncMessage struct {
	ID          uint8
	Connections int
	Version     int // of the protocol, 0 or 1
}

// syncHeader is the length of the header of version 1; that of version 0 is its first half.
const syncHeader = 8

// ParseSync reads the header of a sync message as the kernel does (net/netfilter/ipvs/ip_vs_sync.c): version 1 begins
// with a zero byte, version 0 with the number of connections.
func ParseSync(b []byte) (SyncMessage, error) {
	if len(b) < 4 {
		return SyncMessage{}, fmt.Errorf("a sync message of %d bytes is too short", len(b))
	}
	if size := int(b[2])<<8 | int(b[3]); size != len(b) {
		return SyncMessage{}, fmt.Errorf("a sync message of %d bytes says it has %d", len(b), size)
	}
	m := SyncMessage{ID: b[1], Connections: int(b[0])}
	if b[0] == 0 {
		if len(b) < syncHeader || b[5] != 1 || b[6] != 0 || b[7] != 0 {
			return SyncMessage{}, fmt.Errorf("a sync message of an unknown version")
		}
		m.Version, m.Connections = 1, int(b[4])
	}
	return m, nil
}

// AppendHello appends a sync message without connections. Kernels ignore it, vipd tells from it that another director
// is there: a kernel sends messages only when it has connections to tell of.
func AppendHello(b []byte, id uint8) []byte { return append(b, 0, id, 0, syncHeader, 0, 1, 0, 0) }
