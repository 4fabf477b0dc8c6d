package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLook: looking at a program waits for nothing that is no file, and refuses only what is not secure.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, program := range []string{
		"/bin/sh", "sh", pipe, file("script", "#! "+pipe+" -x\nexit 0\n", 0o755), file("half", "#!", 0o755), file("empty", "", 0o755),
		file("secret", "\x7fELF", 0o711), filepath.Join(dir, "none"), file("no program", "x", 0o600), dir,
	} {
		if err := look(program, false, 0); err != nil {
			t.Errorf("%s: %v", program, err)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("looked for %v", took)
	}
	if got := string(beginning(file("long", string(make([]byte, 5000)), 0o755))); len(got) != 256 {
		t.Errorf("%d bytes", len(got))
	}
	open := file("open", "#!/bin/sh\n", 0o777)
	var insecure *InsecureError
	if err := look(open, true, 0); !errors.As(err, &insecure) {
		t.Errorf("a program that everybody may change: %v", err)
	}
}
