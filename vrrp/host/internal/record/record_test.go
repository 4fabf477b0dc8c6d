package record

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWrite: in a directory that was cleared away, over an older file, and not where that cannot be.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "vipd")
	path := filepath.Join(dir, "file")
	for _, text := range []string{"a longer one", "short"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%q, %v; want %q", b, err, text)
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if err := Write(filepath.Join(path, "below a file"), nil); err == nil {
		t.Error("a file below a file was written")
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "taken"), []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
