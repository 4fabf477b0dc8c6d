package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stateLock keeps a state directory to one daemon. It ends with the process,
// however that ends.
type stateLock struct {
	file *os.File     // locked; never removed: a second daemon must find the same one
	name net.Listener // taken in the network namespace, for when the directory is deleted; may be nil
	done chan struct{}
}

// Close gives the directory up.
func (l *stateLock) Close() {
	l.file.Close()
	if l.name != nil {
		l.name.Close()
		<-l.done
	}
}

// answer takes the calls of those who want to know who we are, until Close: the
// kernel tells them.
func (l *stateLock) answer() {
	defer close(l.done)
	for {
		c, err := l.name.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor left
			time.Sleep(time.Second)
			continue
		}
		c.Close()
	}
}

// lockStateDir makes the state directory and takes it for this process.
func lockStateDir(dir string) (*stateLock, error) {
	err := os.MkdirAll(dir, 0o755)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("making the state directory: %w: run vipd as root, or give it a --state-dir that it may make", err)
	}
	if err != nil {
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
		return nil, taken(dir, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	l := &stateLock{file: f, done: make(chan struct{})}
	if l.name, err = lockName(dir); err != nil {
		f.Close()
		return nil, err
	}
	if l.name != nil {
		go l.answer()
	}
	// The pid is for people; a full disk must not keep the daemon from running.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return l, nil
}

func taken(dir, pid string) error {
	return fmt.Errorf("another vipd (pid %s) uses %s: stop it, or give this one its own --state-dir and --socket", pid, dir)
}

// lockName takes a name for the directory among the abstract sockets of the network
// namespace. A directory that was deleted, by hand or by whoever tidies up /run, can
// be made and locked by a second daemon while the first one works; the name cannot.
// It tells the directory by its parent, so that two containers with a /run of their
// own each are apart.
func lockName(dir string) (net.Listener, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	var parent unix.Stat_t
	if err := unix.Stat(filepath.Dir(abs), &parent); err != nil {
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	name := fmt.Sprintf("@vipd/%x/%x/%s", parent.Dev, parent.Ino, filepath.Base(abs))
	name = name[:min(len(name), 100)] // as much as fits into the address of a socket
	l, err := net.Listen("unix", name)
	if !errors.Is(err, unix.EADDRINUSE) {
		if err != nil {
			return nil, fmt.Errorf("locking the state directory: %w", err)
		}
		return l, nil
	}
	if pid, ok := holder(name); ok {
		return nil, taken(dir, fmt.Sprint(pid))
	}
	return nil, nil // it is no vipd's: whoever took it shall not keep us from working
}

// holder returns the process that listens by the name, if it may be a vipd: it is
// root's, or ours.
func holder(name string) (pid int32, ok bool) {
	c, err := net.Dial("unix", name)
	if err != nil {
		return 0, false
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	if ctl := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctl != nil || err != nil {
		return 0, false
	}
	return cred.Pid, cred.Uid == 0 || int(cred.Uid) == os.Getuid()
}
