package daemon

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// A daemon with thousands of servers lives on what it has read: the heap may grow by
// thriftily percent before garbage is looked for. One with little memory is left to the
// runtime's 100 %: looking costs it more than it brings.
const (
	thriftily = 40
	little    = 16 << 20 // bytes in use
)

// thrifty has garbage looked for often, for the time of reading a configuration, which
// leaves more of it than it keeps.
func thrifty() {
	if os.Getenv("GOGC") == "" { // else the operator has decided
		debug.SetGCPercent(thriftily)
	}
}

// settled ends thrifty where there is little memory in use.
func settled() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if os.Getenv("GOGC") == "" && live[0].Value.Kind() == metrics.KindUint64 && live[0].Value.Uint64() < little {
		debug.SetGCPercent(100)
	}
}
