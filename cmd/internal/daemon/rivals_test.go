package daemon

import (
	"testing"
	"testing/fstest"

	"go.uber.org/zap"
	zaplog "go.uber.org/zap/zaptest/observer"
)

// TestRivals: sockets of VRRP are told of, others are not.
func TestRivals(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
	for name, c := range map[string]struct {
		raw, raw6 string
		want      int64
	}{
		"nobody":     {head, head, 0},
		"not known":  {"", "", 0},
		"ping":       {head + "   1: 00000000:0001 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0\n", "", 0},
		"keepalived": {head + " 112: 120000E0:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0\n", head + " 112: 000002FF000000000000000012000000:0070 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1 2 0 0\n", 2},
	} {
		core, seen := zaplog.New(zap.InfoLevel)
		rivals(fstest.MapFS{"proc/self/net/raw": {Data: []byte(c.raw)}, "proc/self/net/raw6": {Data: []byte(c.raw6)}}, zap.New(core))
		switch lines := seen.All(); {
		case c.want == 0 && len(lines) > 0, c.want > 0 && len(lines) != 1:
			t.Errorf("%s: %v", name, lines)
		case c.want > 0 && lines[0].ContextMap()["sockets"] != c.want:
			t.Errorf("%s: %v, want %d sockets", name, lines[0].ContextMap(), c.want)
		}
	}
}
