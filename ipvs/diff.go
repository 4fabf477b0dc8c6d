package ipvs

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OpKind is the verb of an operation.
type OpKind uint8

// The six changes that a kernel knows.
const (
	AddService OpKind = iota
	EditService
	DelService // takes its destinations along
	AddDestination
	EditDestination
	DelDestination
)

// Op is one change of the kernel's table.
type Op struct {
	Kind        OpKind
	Service     Service     // whole for AddService and EditService; else only its Key counts
	Destination Destination // of the …Destination kinds; DelDestination needs only the address
}

// Target returns what the operation changes.
func (o Op) Target() Target {
	t := Target{Service: o.Service.Key}
	if o.OnDestination() {
		t.Destination = o.Destination.Address
	}
	return t
}

// OnDestination reports whether the operation changes a destination, not a service.
func (o Op) OnDestination() bool { return o.Kind >= AddDestination }

// Removes reports whether the operation takes something out of service. [Diff] puts these behind all others, so a caller
// may apply the two halves apart and keep the second back when the first one failed.
func (o Op) Removes() bool {
	return o.Kind == DelService || o.Kind == DelDestination || o.Kind == EditDestination && !o.Destination.Usable()
}

// String prints the ipvsadm command that does the same.
func (o Op) String() string { return "ipvsadm " + o.arguments() }

func (o Op) arguments() string {
	b := []string{[]string{"-A", "-E", "-D", "-a", "-e", "-d"}[o.Kind]}
	k := o.Service.Key
	switch {
	case k.FWMark != 0:
		b = append(b, "-f", strconv.FormatUint(uint64(k.FWMark), 10))
		if k.IPv6 {
			b = append(b, "-6")
		}
	case k.Protocol == SCTP:
		b = append(b, "--sctp-service", k.Address.String())
	default:
		b = append(b, "-"+k.Protocol.String()[:1], k.Address.String())
	}
	switch o.Kind {
	case AddService, EditService:
		b = append(b, o.Service.arguments()...)
	case AddDestination, EditDestination:
		b = append(b, o.Destination.arguments()...)
	case DelDestination:
		b = append(b, "-r", o.Destination.Address.String())
	}
	return strings.Join(b, " ")
}

func (s Service) arguments() []string {
	s = s.Normal()
	b := []string{"-s", s.Scheduler}
	if s.Persistence != 0 {
		b = append(b, "-p", strconv.FormatInt(int64(max(s.Persistence, 0)/time.Second), 10))
		switch {
		case s.IPv6 && s.Granularity != 128:
			b = append(b, "-M", strconv.Itoa(s.Granularity))
		case !s.IPv6 && s.Granularity != 32:
			m := ^uint32(0) << (32 - s.Granularity)
			b = append(b, "-M", netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}).String())
		}
	}
	if s.Flags&FlagOnePacket != 0 {
		b = append(b, "--ops")
	}
	if s.Engine != "" {
		b = append(b, "--pe", s.Engine)
	}
	var names []string
	for i, f := range []Flags{FlagSched1, FlagSched2, FlagSched3} {
		if s.Flags&f != 0 {
			names = append(names, "flag-"+strconv.Itoa(i+1))
		}
	}
	if names != nil {
		b = append(b, "-b", strings.Join(names, ","))
	}
	return b
}

func (d Destination) arguments() []string {
	// Local and bypass have no option of their own: ipvsadm finds them by itself.
	method := map[Method]string{NAT: "-m", TUN: "-i", DR: "-g"}[d.Method]
	if method == "" {
		method = "(" + d.Method.String() + ")"
	}
	b := []string{"-r", d.Address.String(), method, "-w", strconv.Itoa(d.Weight)}
	if d.Upper != 0 || d.Lower != 0 {
		b = append(b, "-x", strconv.FormatUint(uint64(d.Upper), 10), "-y", strconv.FormatUint(uint64(d.Lower), 10))
	}
	switch d.Tunnel.Type {
	case GUE:
		b = append(b, "--tun-type", "gue", "--tun-port", strconv.Itoa(int(d.Tunnel.Port)))
	case GRE:
		b = append(b, "--tun-type", "gre")
	}
	switch d.Tunnel.Flags {
	case TunnelChecksum:
		b = append(b, "--tun-csum")
	case TunnelRemoteChecksum:
		b = append(b, "--tun-remcsum")
	}
	return b
}

// Diff returns the operations that turn the services of have into those of want. A service that is in want is changed in
// place; one that is only in have is deleted if owned reports it as ours, else left alone. want must be in normal form.
//
// All operations that add capacity come before all that take it away ([Op.Removes]). So between any two of them a pool
// that is usable in both tables has a usable destination.
func Diff(have, want Table, owned func(Key) bool) []Op {
	keys := changed(have, want, owned)
	build := make([]Op, 0, additions(have, want, keys))
	var remove, ops []Op
	for _, k := range keys {
		w, wanted := want[k]
		h, exists := have[k]
		switch {
		case !wanted:
			remove = append(remove, Op{Kind: DelService, Service: Service{Key: k}})
			continue
		case !exists:
			build = append(build, Op{Kind: AddService, Service: w.Service})
		case h.Service != w.Service:
			build = append(build, Op{Kind: EditService, Service: w.Service})
		}
		ops = diffDestinations(ops[:0], h, w)
		for _, op := range ops {
			if op.Removes() {
				remove = append(remove, op)
			} else {
				build = append(build, op)
			}
		}
	}
	return append(build, remove...)
}

// additions is how many services and destinations are to be added.
func additions(have, want Table, keys []Key) (n int) {
	for _, k := range keys {
		h, exists := have[k]
		if !exists {
			n++
		}
		n += max(len(want[k].Destinations)-len(h.Destinations), 0)
	}
	return n
}

// changed lists in order the services that differ and may be touched; without changes it costs no sorting.
func changed(have, want Table, owned func(Key) bool) []Key {
	var keys []Key
	for k, w := range want {
		if h, ok := have[k]; !ok || !samePool(h, w) {
			keys = append(keys, k)
		}
	}
	for k := range have {
		if _, ok := want[k]; !ok && owned(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}

func samePool(a, b Pool) bool {
	if a.Service != b.Service || len(a.Destinations) != len(b.Destinations) {
		return false
	}
	for addr, d := range a.Destinations {
		if b.Destinations[addr] != d {
			return false
		}
	}
	return true
}

// diffDestinations appends to ops, which is empty, and sorts by address, deletions behind edits: a server told to take no more connections comes before one cut off.
func diffDestinations(ops []Op, have, want Pool) []Op {
	s := Service{Key: want.Service.Key}
	for addr, w := range want.Destinations {
		switch h, ok := have.Destinations[addr]; {
		case !ok:
			ops = append(ops, Op{Kind: AddDestination, Service: s, Destination: w})
		case h != w:
			ops = append(ops, Op{Kind: EditDestination, Service: s, Destination: w})
		}
	}
	for addr, h := range have.Destinations {
		if _, ok := want.Destinations[addr]; !ok {
			ops = append(ops, Op{Kind: DelDestination, Service: s, Destination: Destination{Address: h.Address}})
		}
	}
	slices.SortFunc(ops, func(a, b Op) int {
		if a.Kind != b.Kind {
			return int(a.Kind) - int(b.Kind)
		}
		return a.Destination.Address.Compare(b.Destination.Address)
	})
	return ops
}
