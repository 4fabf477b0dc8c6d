package control

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenTakesAStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	old, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another vipd answers") {
		t.Errorf("beside a live one: %v", err)
	}
	old.Close()
	l, err := Listen(path)
	if err != nil {
		t.Fatalf("after a dead one: %v", err)
	}
	defer l.Close()
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v (%v), want it for root alone", fi, err)
	}
}

// A file that is given by mistake must survive.
func TestListenKeepsOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vipd.toml")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("the error is %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file holds %q (%v)", b, err)
	}
}

func TestListenRefusesALongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if _, err := Listen(filepath.Join(dir, "vipd.sock")); err == nil || !strings.Contains(err.Error(), "give a shorter --socket") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a directory was made for it")
	}
}
