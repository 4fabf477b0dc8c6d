package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// etc is where `ip netns` keeps files that replace those of /etc in a namespace.
const etc = "/etc/netns"

// What is handed over to the program that starts anew.
const (
	envWarning = "VIPD_NETNS_WARNING" // what went wrong on the way, and was no reason to stop
	envFirst   = "VIPD_NETNS_FIRST"   // descriptor of the namespace that was left
	envName    = "VIPD_NETNS_NAME"    // name of the one that was entered
)

// nsMagic is the type of the file system that namespaces are files of.
const nsMagic = 0x6e736673

// Enter moves the whole process into the namespace with a name: it starts the
// program anew, with the same process id, arguments, environment and standard
// streams, on a thread that is in the namespace already, so that every thread is
// born there. As `ip netns exec` does, it gives the process mounts of its own, with
// the namespace's /sys and the files of /etc/netns/NAME over those of /etc.
//
// It returns only when that cannot be done. ready is called last of all; an error of
// it stops the new start, too. In either case the process must end: the calling
// thread may be in the namespace already.
func Enter(name string, ready func() error) error {
	ns, err := open(Path(name))
	if err != nil {
		return err
	}
	defer ns.Close()
	exe, err := executable()
	if err != nil {
		return err
	}
	first, err := unix.Open(own, unix.O_RDONLY, 0) // stays open
	if err != nil {
		return fmt.Errorf("opening the own network namespace: %w", err)
	}
	_ = os.Setenv(envFirst, strconv.Itoa(first)) // cannot fail with this name
	_ = os.Setenv(envName, name)
	runtime.LockOSThread()
	if err := set(ns); err != nil {
		runtime.UnlockOSThread() // nothing was changed
		return err
	}
	if err := mounts(name); err != nil {
		_ = os.Setenv(envWarning, err.Error())
	}
	if err := ready(); err != nil {
		return err
	}
	return fmt.Errorf("starting anew in network namespace %s: %w", name, unix.Exec(exe, os.Args, os.Environ()))
}

// Warning returns, once, what went wrong when the process entered its namespace; ""
// when nothing did.
func Warning() string {
	text := strings.ReplaceAll(os.Getenv(envWarning), "\n", "; ")
	_ = os.Unsetenv(envWarning) // it is nothing for commands that are run later
	return text
}

// Entered returns, once, the name of the namespace that the process has entered by
// Enter; "" when it has not.
func Entered() string {
	name := os.Getenv(envName)
	_ = os.Unsetenv(envName)
	return name
}

// First is the path of the namespace that the process was started in before it
// entered another one, and without that of process 1's. It must be asked before
// commands are run.
func First() string {
	text, ok := os.LookupEnv(envFirst)
	_ = os.Unsetenv(envFirst)
	fd, err := strconv.Atoi(text)
	var fs unix.Statfs_t
	if !ok || err != nil || unix.Fstatfs(fd, &fs) != nil || fs.Type != nsMagic {
		return one
	}
	unix.CloseOnExec(fd)
	return "/proc/self/fd/" + text
}

// executable is the path of the running program: its own, so that it keeps its name
// in the list of processes, unless another program stands there now.
func executable() (string, error) {
	const self = "/proc/self/exe"
	running, err := os.Stat(self)
	if err != nil {
		return "", fmt.Errorf("looking for the running program: %w", err)
	}
	path, err := os.Executable()
	if err != nil {
		return self, nil
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(there, running) {
		return self, nil
	}
	return path, nil
}

// mounts gives the calling thread mounts of its own that fit the namespace. Mounts
// that are made outside later are seen inside as well.
func mounts(name string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making mounts of its own: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("parting the mounts from those of the machine: %w", err)
	}
	var errs []error
	var flags uintptr
	var fs unix.Statfs_t
	if unix.Statfs("/sys", &fs) == nil && fs.Flags&unix.ST_RDONLY != 0 {
		flags = unix.MS_RDONLY
	}
	_ = unix.Unmount("/sys", unix.MNT_DETACH) // it need not be there
	if err := unix.Mount("sysfs", "/sys", "sysfs", flags, ""); err != nil {
		errs = append(errs, fmt.Errorf("mounting /sys: %w", err))
	}
	entries, _ := os.ReadDir(filepath.Join(etc, name)) // mostly there are none
	for _, e := range entries {
		from, to := filepath.Join(etc, name, e.Name()), filepath.Join("/etc", e.Name())
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			errs = append(errs, fmt.Errorf("putting %s over %s: %w", from, to, err))
		}
	}
	return errors.Join(errs...)
}
