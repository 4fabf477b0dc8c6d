package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStateLock: one daemon a state directory, also when the directory is deleted or
// moved away while it works; another directory is another lock; what is given up is
// free.
func TestStateLock(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, dir string){
		"as it is": func(*testing.T, string) {},
		"deleted": func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
		"moved away": func(t *testing.T, dir string) {
			if err := os.Rename(dir, dir+".old"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			lock, err := lockStateDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			meanwhile(t, dir)
			want := fmt.Sprintf("another vipd (pid %d) uses %s", os.Getpid(), dir)
			if l, err := lockStateDir(dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a second daemon: %v %v, want %q", l, err, want)
			}
			other, err := lockStateDir(dir + "2")
			if err != nil {
				t.Errorf("another directory: %v", err)
			} else {
				other.Close()
			}
			lock.Close()
			again, err := lockStateDir(dir)
			if err != nil {
				t.Fatalf("after the end of the first: %v", err)
			}
			again.Close()
		})
	}
}
