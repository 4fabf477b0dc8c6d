package control

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestFrozenDaemon: a daemon that does not answer is told from one that is not
// there.
func TestFrozenDaemon(t *testing.T) {
	path := t.TempDir() + "/sock"
	c := NewClient(path)
	c.http.Timeout = 50 * time.Millisecond
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "vipd is not running") {
		t.Errorf("without a socket: %v", err)
	}
	l, err := net.Listen("unix", path) // the kernel accepts, nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "has not answered for 50ms") {
		t.Errorf("frozen: %v", err)
	}
}
