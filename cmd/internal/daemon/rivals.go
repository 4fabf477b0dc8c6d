package daemon

import (
	"io/fs"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"vipd/vrrp/packet"
)

// rivals warns of another program that speaks VRRP in this network namespace before
// vipd does: a keepalived that was not stopped fights over the same addresses, and
// neither hears the other.
func rivals(root fs.FS, log *zap.Logger) {
	n := 0
	for _, name := range []string{"proc/self/net/raw", "proc/self/net/raw6"} {
		b, _ := fs.ReadFile(root, name) // without it nothing is known
		n += rawSockets(string(b), packet.Protocol)
	}
	if n > 0 {
		log.Warn("another program of this machine speaks VRRP already; if it is a keepalived with the same virtual routers, stop and disable it, or use vipd run --observe beside it",
			zap.Int("sockets", n))
	}
}

// rawSockets counts the sockets of a protocol in /proc/net/raw: their local port is its
// number.
func rawSockets(table string, protocol uint64) int {
	n := 0
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		_, port, _ := strings.Cut(fields[1], ":")
		if p, err := strconv.ParseUint(port, 16, 16); err == nil && p == protocol {
			n++
		}
	}
	return n
}
