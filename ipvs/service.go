package ipvs

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Protocol is the transport protocol of a service, as an IP protocol number.
type Protocol uint8

// The protocols that IPVS balances; zero is for firewall-mark services.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String returns "tcp", "udp", "sctp" or the number.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return strconv.Itoa(int(p))
}

// Key identifies a virtual service: protocol, address and port, or a firewall mark and a family. Make one with
// [AddressKey] or [MarkKey], so that equal services have equal keys.
type Key struct {
	Protocol Protocol       // zero for a firewall mark
	Address  netip.AddrPort // invalid for a firewall mark
	FWMark   uint32         // zero for an address
	IPv6     bool           // family; follows the address when there is one
}

// AddressKey is the key of a service at an address and port.
func AddressKey(p Protocol, a netip.AddrPort) Key {
	addr := a.Addr().Unmap().WithZone("")
	return Key{Protocol: p, Address: netip.AddrPortFrom(addr, a.Port()), IPv6: addr.Is6()}
}

// MarkKey is the key of a firewall-mark service; the same mark may exist once a family.
func MarkKey(mark uint32, ipv6 bool) Key { return Key{FWMark: mark, IPv6: ipv6} }

// String returns "tcp 10.9.0.100:80", "udp [2001:db8::1]:53", "fwmark 7 inet" or "fwmark 7 inet6".
func (k Key) String() string {
	if k.FWMark == 0 {
		return k.Protocol.String() + " " + k.Address.String()
	}
	family := " inet"
	if k.IPv6 {
		family = " inet6"
	}
	return "fwmark " + strconv.FormatUint(uint64(k.FWMark), 10) + family
}

// ParseKey reads what [Key.String] prints.
func ParseKey(s string) (Key, error) {
	kind, rest, _ := strings.Cut(s, " ")
	switch kind {
	case "tcp", "udp", "sctp":
		a, err := netip.ParseAddrPort(rest)
		if err != nil {
			return Key{}, fmt.Errorf("parsing service %q: %w", s, err)
		}
		return AddressKey(map[string]Protocol{"tcp": TCP, "udp": UDP, "sctp": SCTP}[kind], a), nil
	case "fwmark":
		number, family, _ := strings.Cut(rest, " ")
		mark, err := strconv.ParseUint(number, 10, 32)
		if err == nil && mark > 0 && (family == "inet" || family == "inet6") {
			return MarkKey(uint32(mark), family == "inet6"), nil
		}
	}
	return Key{}, fmt.Errorf("parsing service %q: want \"tcp ADDRESS:PORT\", udp, sctp or \"fwmark N inet|inet6\"", s)
}

// Compare orders keys: addresses before marks, then protocol, address, port, mark, family.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		cmp.Compare(min(k.FWMark, 1), min(o.FWMark, 1)),
		cmp.Compare(k.Protocol, o.Protocol),
		k.Address.Compare(o.Address),
		cmp.Compare(k.FWMark, o.FWMark),
		boolCompare(k.IPv6, o.IPv6),
	)
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Flags are the kernel's service flags other than persistence (which follows Service.Persistence) and its internal
// "hashed" mark.
type Flags uint32

// The flags, with the kernel's numbers. Sched1 is sh-fallback and mh-fallback, Sched2 sh-port and mh-port.
const (
	FlagOnePacket Flags = 0x04
	FlagSched1    Flags = 0x08
	FlagSched2    Flags = 0x10
	FlagSched3    Flags = 0x20

	FlagsAll = FlagOnePacket | FlagSched1 | FlagSched2 | FlagSched3
)

// Service is a virtual service without its destinations. Two services that behave alike are equal after [Service.Normal].
type Service struct {
	Key
	Scheduler string // kernel name: "wlc", "rr", …
	Flags     Flags
	// Persistence is how long a client stays with its server; zero is off. The kernel counts whole seconds: fractions are
	// rounded up. A negative value is a persistent service with a time of zero, which only another program can have made.
	Persistence time.Duration
	Granularity int // prefix length of what counts as one client; zero is a single host. Means nothing without Persistence.
	// Engine names the persistence engine ("sip") that says what a client is; empty for its address. A change of the
	// service that does not name it takes it away, so it is in every one.
	Engine string
}

// Normal returns the service as the kernel keeps it: whole seconds, no granularity without persistence and never zero.
func (s Service) Normal() Service {
	full := 32
	if s.IPv6 {
		full = 128
	}
	if s.Persistence > 0 {
		s.Persistence = (s.Persistence + time.Second - 1).Truncate(time.Second)
	}
	if s.Persistence == 0 || s.Granularity <= 0 || s.Granularity > full {
		s.Granularity = full
	}
	s.Flags &= FlagsAll
	return s
}

// Method says how packets reach a real server. The numbers are the kernel's.
type Method uint8

// The forwarding methods; Local and Bypass are never wanted but may be found in a kernel.
const (
	NAT    Method = 0
	Local  Method = 1
	TUN    Method = 2
	DR     Method = 3
	Bypass Method = 4
)

// String returns the word that the configuration uses.
func (m Method) String() string {
	switch m {
	case NAT:
		return "NAT"
	case Local:
		return "LOCAL"
	case TUN:
		return "TUN"
	case DR:
		return "DR"
	case Bypass:
		return "BYPASS"
	}
	return strconv.Itoa(int(m))
}

// ParseProtocol reads "TCP", "UDP" or "SCTP" in either case.
func ParseProtocol(s string) (Protocol, error) {
	switch strings.ToLower(s) {
	case "tcp":
		return TCP, nil
	case "udp":
		return UDP, nil
	case "sctp":
		return SCTP, nil
	}
	return 0, fmt.Errorf("parsing protocol %q: want TCP, UDP or SCTP", s)
}

// TunnelType is a kind of encapsulation. The numbers are the kernel's.
type TunnelType uint8

// The tunnels: plain IP in IP, generic UDP encapsulation and GRE.
const (
	IPIP TunnelType = 0
	GUE  TunnelType = 1
	GRE  TunnelType = 2
)

// String returns the word that the configuration and ipvsadm use.
func (t TunnelType) String() string {
	switch t {
	case IPIP:
		return "ipip"
	case GUE:
		return "gue"
	case GRE:
		return "gre"
	}
	return strconv.Itoa(int(t))
}

// TunnelFlags say what the outer header of GUE and GRE carries. The numbers are the kernel's.
type TunnelFlags uint16

// The flags; without any there is no checksum. Remote checksums are GUE's alone.
const (
	TunnelChecksum       TunnelFlags = 1
	TunnelRemoteChecksum TunnelFlags = 2
)

// Tunnel is the encapsulation of a TUN destination; the zero value is plain IP in IP.
type Tunnel struct {
	Type  TunnelType
	Port  uint16 // GUE's UDP port, never 0 with GUE
	Flags TunnelFlags
}

// Destination is a real server in a service. Its address is its identity, everything else can be edited in place.
type Destination struct {
	Address netip.AddrPort
	Method  Method
	Weight  int    // 0 takes no new connections
	Upper   uint32 // with so many connections it gets no more of them; 0: no limit
	Lower   uint32 // … until it has fewer than this; 0: three quarters of Upper. Never above Upper.
	Tunnel  Tunnel
}

// Usable reports whether the scheduler may pick the destination.
func (d Destination) Usable() bool { return d.Weight > 0 }
