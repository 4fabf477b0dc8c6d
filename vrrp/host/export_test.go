package host

// SetBuffer makes the watcher's event buffer small, so that it overflows.
func (w *Watcher) SetBuffer(bytes int) { w.buffer = bytes }
