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
	// arena is what the Go runtime reserves of its heap at a time, and chunk what it
	// takes of it.
	arena = 64 << 20
	chunk = 4 << 20
)

// Use moves code and heap. An error says what stays as it was; that does no harm.
// Another call moves nothing again.
func Use() error {
	if os.Getpagesize() != 4096 || unsafe.Sizeof(uintptr(0)) != 8 {
		return errors.New("huge pages: not on this kind of machine")
	}
	return errors.Join(heap(), code())
}

// heap asks for huge pages for the first arena of the heap, and for what is in use of
// it at once.
func heap() error {
	at := uintptr(unsafe.Pointer(new([2 * 4096]byte)))
	if err := advise(at&^(arena-1), arena, unix.MADV_HUGEPAGE); err != nil {
		return fmt.Errorf("huge pages for the heap: %w", err)
	}
	// It takes Linux 6.1; before it, the kernel does so by itself in time.
	_ = advise(at&^(chunk-1), chunk, unix.MADV_COLLAPSE)
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
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, fmt.Errorf("huge pages for the code: %w", err)
	}
	self := reflect.ValueOf(text).Pointer()
	for line := range strings.Lines(string(maps)) {
		var perm, offset, dev string
		var inode uint64
		if _, err := fmt.Sscanf(line, "%x-%x %s %s %s %d", &from, &to, &perm, &offset, &dev, &inode); err != nil || self < from || self >= to {
			continue
		}
		if inode == 0 {
			return 0, 0, nil
		}
		return from, to, nil
	}
	return 0, 0, errors.New("huge pages for the code: it is not in /proc/self/maps")
}

// pointer is for memory that the Go runtime does not manage.
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }
