package daemon

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/netlink"
)

// lossy is a kernel whose answers may be lost: the one in memory, or the real one beside it. The real one is then told
// all that the other is, must answer as it does and must have the same table. Its connections are those of the one in
// memory.
type lossy struct {
	*ipvstest.Kernel
	lost bool

	mu   sync.Mutex // held while both change
	real *netlink.Kernel
	kept []bool // of the present changes, which the real one is not to see
	err  error  // how they came to differ
}

// newLossy returns an empty table.
func newLossy() *lossy {
	l := &lossy{Kernel: ipvstest.New()}
	if os.Getenv("VIPD_WALKS") == "kernel" {
		l.real = netlink.NewKernel(nil)
		l.empty()
	}
	return l
}

// Apply makes the changes in both, and loses answers.
func (l *lossy) Apply(ops []ipvs.Op) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = nil
	errs := l.Kernel.Apply(ops)
	l.follow(ops, errs)
	for i := range errs {
		if l.lost && errs[i] == nil && i%2 == 0 {
			errs[i] = fmt.Errorf("waiting for the kernel: %w", os.ErrDeadlineExceeded)
		}
	}
	return errs
}

// follow makes changes in the real kernel that the one in memory has answered.
func (l *lossy) follow(ops []ipvs.Op, answers []error) {
	if l.real == nil {
		return
	}
	var real []ipvs.Op
	var want []error
	for i, op := range ops {
		if i >= len(l.kept) || !l.kept[i] {
			real, want = append(real, op), append(want, answers[i])
		}
	}
	if len(real) == 0 {
		return
	}
	for i, err := range l.real.Apply(real) {
		if errno(err) != errno(want[i]) {
			l.differ(fmt.Errorf("%s: the kernel answers %v, and the one in memory %v", real[i], err, want[i]))
		}
	}
}

func errno(err error) unix.Errno {
	n, _ := errors.AsType[unix.Errno](err)
	if n == 0 && err != nil {
		return unix.EIO
	}
	return n
}

func (l *lossy) differ(err error) {
	if l.err == nil {
		l.err = err
	}
}

// Fail makes f decide which changes fail; the real kernel does not see those.
func (l *lossy) Fail(f func(ipvs.Op) error) {
	if f == nil {
		l.Kernel.Fail(nil)
		return
	}
	l.Kernel.Fail(func(op ipvs.Op) error {
		err := f(op)
		l.kept = append(l.kept, err != nil)
		return err
	})
}

// Read returns the table.
func (l *lossy) Read() (ipvs.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	snap, err := l.Kernel.Read()
	if l.real == nil || err != nil {
		return snap, err
	}
	got, err := l.real.Read()
	switch {
	case err != nil:
		l.differ(err)
	case !got.Table.Equal(snap.Table):
		l.differ(fmt.Errorf("the kernel has\n%s", got.Table))
	}
	return ipvs.Snapshot{Table: got.Table, Connections: snap.Connections}, err
}

// Same takes the cheap look.
func (l *lossy) Same(t ipvs.Table) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	same, err := l.Kernel.Same(t)
	if l.real == nil || err != nil {
		return same, err
	}
	if same, err = l.real.Same(t); err != nil {
		l.differ(err)
	}
	return same, err
}

// Edit changes the table behind the back of vipd.
func (l *lossy) Edit(ops ...ipvs.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, op := range ops {
		before := l.Kernel.Table()
		if l.Kernel.Edit(op); l.real != nil && !l.Kernel.Table().Equal(before) {
			l.kept = nil
			l.follow([]ipvs.Op{op}, []error{nil})
		}
	}
}

// Flush empties the table behind the back of vipd.
func (l *lossy) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Kernel.Flush()
	l.empty()
}

// empty empties the real table.
func (l *lossy) empty() {
	if l.real == nil {
		return
	}
	got, err := l.real.Read()
	if err != nil {
		l.differ(err)
		return
	}
	for _, p := range got.Table {
		if err := l.real.Apply([]ipvs.Op{{Kind: ipvs.DelService, Service: p.Service}})[0]; err != nil {
			l.differ(err)
		}
	}
}

// apart says how the kernel came to differ from the one in memory.
func (l *lossy) apart() error {
	if l.real == nil {
		return nil
	}
	_, _ = l.Read() // what is wrong with it, is in l.err
	return l.err
}

// close empties the real table and leaves it.
func (l *lossy) close() error {
	if l.real == nil {
		return nil
	}
	l.Flush()
	return errors.Join(l.err, l.real.Close())
}
