package host

// SetBuffer makes the watcher's event buffer small, so that it overflows.
func (w *Watcher) SetBuffer(bytes int) { w.buffer = bytes }

// Stale reports whether the snapshot has the addresses of an earlier reading.
func (s State) Stale() bool { return s.At.Before(s.began()) }
