package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lockStateDir makes the state directory and takes it for this process. The
// lock ends with the process, however it ends. The file is never removed: a
// second daemon must find the same one.
func lockStateDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "vipd.pid"), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the state directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder, _ := os.ReadFile(f.Name())
		f.Close()
		return nil, fmt.Errorf("another vipd (pid %s) uses %s: stop it, or give this one its own --state-dir and --socket",
			strings.TrimSpace(string(holder)), dir)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	// The pid is for people; a full disk must not keep the daemon from running.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}
