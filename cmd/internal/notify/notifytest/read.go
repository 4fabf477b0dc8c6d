// Package notifytest has what tests need that read notifications.
package notifytest

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"
)

// Lines reads n lines of a named pipe that somebody has open for writing; it fails the
// test when they do not come within 10 s.
func Lines(t *testing.T, path string, n int) []string {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var out []string
	for r := bufio.NewReader(file); len(out) < n; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d of %d lines of %s: %v", len(out), n, path, err)
		}
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}
