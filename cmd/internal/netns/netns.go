// Package netns enters network namespaces by name, as `ip netns` makes them.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// Dir is where `ip netns add` keeps namespaces.
	Dir = "/run/netns"
	// one is the namespace of process 1.
	one = "/proc/1/ns/net"
	// own is that of the calling thread.
	own = "/proc/thread-self/ns/net"
)

// Path is the file of the namespace with a name.
func Path(name string) string { return filepath.Join(Dir, name) }

// Do runs f on a thread inside the namespace that path names, and waits for it.
// Sockets and files of /proc that f opens stay with that namespace wherever they
// are used later.
func Do(path string, f func() error) error {
	ns, err := open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := set(ns); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// Inside reports whether the calling thread is in the namespace that path names.
func Inside(path string) (bool, error) {
	there, err := os.Stat(path)
	if err != nil {
		return false, missing(path, err)
	}
	here, err := os.Stat(own)
	if err != nil {
		return false, fmt.Errorf("looking for the own network namespace: %w", err)
	}
	return os.SameFile(there, here), nil
}

// open opens the file of a namespace.
func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, missing(path, err)
	}
	return f, nil
}

// missing says what to do about a namespace that cannot be opened.
func missing(path string, err error) error {
	name := filepath.Base(path)
	switch {
	case path == one && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("opening the network namespace of process 1: %w: it takes CAP_SYS_PTRACE; name a namespace instead", err)
	case path == one || !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("opening the network namespace: %w", err)
	}
	text := fmt.Sprintf("there is no network namespace %q: make it first (ip netns add %s)", name, name)
	entries, _ := os.ReadDir(Dir) // without the directory there is none
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) > 0 {
		slices.Sort(names)
		text += "; there are: " + strings.Join(names[:min(len(names), 10)], ", ")
	}
	return fmt.Errorf("%s: %w", text, fs.ErrNotExist)
}

// set moves the calling thread, which must be locked.
func set(ns *os.File) error {
	err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("entering network namespace %s: %w: it takes CAP_SYS_ADMIN; run as root, and under systemd add CapabilityBoundingSet=CAP_SYS_ADMIN to the unit, or let systemd do it with NetworkNamespacePath=%s", ns.Name(), err, ns.Name())
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("entering network namespace %s: %w: the file is not a namespace; remove it and make it again with ip netns add", ns.Name(), err)
	case err != nil:
		return fmt.Errorf("entering network namespace %s: %w", ns.Name(), err)
	}
	return nil
}
