// Package hugepages moves what the process touches most, its code and its heap, to
// huge pages. A daemon that sleeps finds the processor's caches of page tables cold
// whenever it wakes up, and pays for each page that it touches then: up to 20 µs on a
// virtual machine within another one. A takeover touches some hundred pages of 4 KiB,
// or a handful of huge ones.
package hugepages

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// size is that of a huge page where pages have 4 KiB.
	size = 2 << 20
	// chunk is what the Go runtime takes at a time for its heap, and reach more than what
	// all chunks lie within.
	chunk = 4 << 20
	reach = 1 << 34
)

// Use moves the code, once, and the heap as it is. An error says what stays as it
// was; that does no harm.
func Use() error {
	if os.Getpagesize() != 4096 || unsafe.Sizeof(uintptr(0)) != 8 {
		return errors.New("huge pages: not on this kind of machine")
	}
	return errors.Join(Heap(), code())
}

// Heap moves the heap as it is: the runtime takes it in chunks, and what it takes later
// is in small pages until the next call.
func Heap() error {
	at := uintptr(unsafe.Pointer(new([2 * 4096]byte)))
	all, err := mappings()
	if err != nil {
		return fmt.Errorf("huge pages for the heap: %w", err)
	}
	for _, m := range all {
		near := m.from > at-reach && m.to < at+reach
		if !near || m.perm != "rw-p" || m.inode != 0 || m.from%chunk != 0 || m.to%chunk != 0 {
			continue
		}
		if err := advise(m.from, m.to-m.from, unix.MADV_HUGEPAGE); err != nil {
			return fmt.Errorf("huge pages for the heap: %w", err)
		}
		// It takes Linux 6.1; before it, the kernel does so by itself in time.
		_ = advise(m.from, m.to-m.from, unix.MADV_COLLAPSE)
	}
	return nil
}

func advise(at, n uintptr, what uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, at, n, what); errno != 0 {
		return errno
	}
	return nil
}

// code puts a copy of the program's code in its own place, in one step that other
// threads wait for: files have no huge pages in most kernels. Where memory must not
// be made executable (SELinux, MemoryDenyWriteExecute) it stays as it is.
func code() error {
	from, to, err := text()
	if err != nil || from == 0 {
		return err
	}
	n := to - from
	room, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, n+2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	if errno != 0 {
		return fmt.Errorf("huge pages for the code: %w", errno)
	}
	// Huge pages move only to where they begin as before.
	at := (room+size-1)&^(size-1) + from&(size-1)
	err = advise(at&^(size-1), (from&(size-1)+n+size-1)&^(size-1), unix.MADV_HUGEPAGE)
	if err == nil {
		copy(unsafe.Slice((*byte)(pointer(at)), n), unsafe.Slice((*byte)(pointer(from)), n))
		err = move(at, from, n)
	}
	if err != nil {
		return fmt.Errorf("huge pages for the code: %w", errors.Join(err, unmap(room, n+2*size)))
	}
	// Where the moved part was somebody else may have memory by now.
	return errors.Join(unmap(room, at-room), unmap(at+n, room+2*size-at))
}

func unmap(at, n uintptr) error {
	if n == 0 {
		return nil
	}
	if _, _, errno := unix.Syscall(unix.SYS_MUNMAP, at, n, 0); errno != 0 {
		return fmt.Errorf("giving memory back: %w", errno)
	}
	return nil
}

// move makes n bytes executable and puts them where others are.
func move(at, to, n uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MPROTECT, at, n, unix.PROT_READ|unix.PROT_EXEC); errno != 0 {
		return errno
	}
	if _, _, errno := unix.Syscall6(unix.SYS_MREMAP, at, n, n, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, to, 0); errno != 0 {
		return errno
	}
	return nil
}

// text returns where the code of the program is, in whole pages; 0 when it was moved
// already.
func text() (from, to uintptr, err error) {
	all, err := mappings()
	if err != nil {
		return 0, 0, fmt.Errorf("huge pages for the code: %w", err)
	}
	self := reflect.ValueOf(text).Pointer()
	for _, m := range all {
		switch {
		case self < m.from || self >= m.to:
		case m.inode == 0:
			return 0, 0, nil
		default:
			return m.from, m.to, nil
		}
	}
	return 0, 0, errors.New("huge pages for the code: it is not in /proc/self/maps")
}

// mapping is a line of /proc/self/maps (proc_pid_maps(5)).
type mapping struct {
	from, to uintptr
	perm     string
	inode    uint64
}

func mappings() ([]mapping, error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var all []mapping
	for line := range strings.Lines(string(text)) {
		var m mapping
		var offset, device string
		if _, err := fmt.Sscanf(line, "%x-%x %s %s %s %d", &m.from, &m.to, &m.perm, &offset, &device, &m.inode); err != nil {
			return nil, fmt.Errorf("/proc/self/maps: %q: %w", line, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// pointer is for memory that the Go runtime does not manage.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
