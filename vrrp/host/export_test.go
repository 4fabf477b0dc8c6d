package host

import "net/netip"

// SetBuffer makes the watcher's event buffer small, so that it overflows.
func (w *Watcher) SetBuffer(bytes int) { w.buffer = bytes }

// Stale reports whether the snapshot has the addresses of an earlier reading.
func (s State) Stale() bool { return s.At.Before(s.Start()) }

// Answering is a kernel whose IPv6 addresses take packets when Local says so.
type Answering struct {
	Kernel
	Local func(index int, ip netip.Addr) bool
}

func (k *Answering) answers(index int, ip netip.Addr) bool { return k.Local(index, ip) }
