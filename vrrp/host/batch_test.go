package host_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// many is an instance's n addresses.
func many(n int) (vips []string) {
	for i := range n {
		vips = append(vips, fmt.Sprintf("10.8.%d.%d/32", i/250, i%250+1))
	}
	return vips
}

// conformBatch: each change has the outcome that it would have alone, however many fail.
func conformBatch(t *testing.T, b bench) {
	b.newLink(t, "tst0")
	i := index(t, b, "tst0")
	change := func(index int, p string, remove bool) host.Change {
		return host.Change{Index: index, Addr: addr(p), Remove: remove}
	}
	mixed := []struct {
		host.Change
		want error
	}{
		{change(i, "10.1.0.1/24", false), nil},
		{change(i, "10.1.0.1/24", false), unix.EEXIST},
		{change(i, "10.1.0.2/24", true), unix.EADDRNOTAVAIL},
		{change(i+1000, "10.1.0.3/24", false), unix.ENODEV},
		{change(i, "2001:db8:1::1/64", false), nil},
		{change(i, "2001:db8:1::1/64", false), unix.EEXIST},
		{change(i, "10.1.0.4/24", false), nil},
		{change(i, "10.1.0.4/24", true), nil},
		{change(i, "10.1.0.4/24", false), nil},
	}
	var changes []host.Change
	for _, m := range mixed {
		changes = append(changes, m.Change)
	}
	for n, err := range b.Change(changes) {
		if want := mixed[n].want; want == nil && err != nil || want != nil && err == nil {
			t.Errorf("change %d: got %v, want %v", n, err, want)
		} else if want != nil {
			wantErr(t, err, want.(unix.Errno), fmt.Sprintf("change %d", n))
		}
	}
	there := strings.Split(dump(t, b, "tst0"), "\n")
	slices.Sort(there)
	expect(t, strings.Join(there, "\n"), `10.1.0.1/24 dev tst0 proto 112
10.1.0.4/24 dev tst0 proto 112 secondary
2001:db8:1::1/64 dev tst0 nodad proto 112`)
	changes = nil
	for _, p := range many(300) {
		changes = append(changes, change(i, p, false))
	}
	for _, want := range []error{nil, unix.EEXIST} {
		errs := b.Change(changes)
		if len(errs) != len(changes) {
			t.Fatalf("%d outcomes of %d changes", len(errs), len(changes))
		}
		for n, err := range errs {
			if want == nil {
				must(t, err)
			} else {
				wantErr(t, err, unix.EEXIST, fmt.Sprintf("the second addition %d", n))
			}
		}
	}
	if n := strings.Count(dump(t, b, "tst0"), "dev tst0"); n != 303 {
		t.Errorf("%d addresses are there, want 303", n)
	}
}

// batches is a kernel that notes how many changes it is asked for at once.
type batches struct {
	*hosttest.Kernel
	mu    sync.Mutex // guards what follows
	sizes []int
	meet  func(batch int)
}

func (k *batches) Change(changes []host.Change) []error {
	k.mu.Lock()
	k.sizes = append(k.sizes, len(changes))
	n, meet := len(k.sizes), k.meet
	k.mu.Unlock()
	errs := k.Kernel.Change(changes)
	if meet != nil {
		meet(n)
	}
	return errs
}

func inBatches(t *testing.T, f func(t *testing.T, r *rig, k *batches)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.k.OnChange(nil)
		k := &batches{Kernel: r.k}
		r.Manager = host.NewManager(k, r.k, r.file, r.j.callbacks(), nil)
		s, err := r.k.State()
		must(t, err)
		r.State(s)
		r.run()
		f(t, r, k)
		r.stop()
	})
}

func TestFirstAdditionIsAlone(t *testing.T) {
	inBatches(t, func(t *testing.T, r *rig, k *batches) {
		r.Configure([]host.Set{set("A", many(200)...), set("B", "10.9.0.100/32")})
		for range 2 {
			k.mu.Lock()
			k.sizes, k.meet = nil, func(n int) {
				if told := strings.Count("\n"+r.j.peek(), "\npresent"); n == 2 && told != 1 {
					t.Errorf("%d addresses were told before the second batch, want the first one", told)
				}
			}
			k.mu.Unlock()
			r.Want("A", true)
			r.settle()
			k.mu.Lock()
			if want := []int{1, 8, 64, 64, 63}; !slices.Equal(k.sizes, want) {
				t.Errorf("additions came in batches of %v, want %v", k.sizes, want)
			}
			k.meet = nil
			k.mu.Unlock()
			want := "present A " + strings.Join(many(200), "\npresent A ")
			expect(t, r.j.take(), want)
			r.Want("A", false)
			r.settle()
			expect(t, r.addresses(), baseOnly)
			r.j.take()
		}
	})
}

// What is asked for while a batch is made counts before the next one.
func TestBatchesAreInterrupted(t *testing.T) {
	inBatches(t, func(t *testing.T, r *rig, k *batches) {
		r.Configure([]host.Set{set("A", many(200)...), set("B", "10.9.0.100/32")})
		k.mu.Lock()
		k.meet = func(n int) {
			if n == 3 {
				r.Want("A", false)
				r.Want("B", true)
			}
		}
		k.mu.Unlock()
		r.Want("A", true)
		r.settle()
		expect(t, r.addresses(), "ip addr add 10.9.0.100/32 dev eth0 proto 112\n"+baseOnly)
		if lines := r.j.take(); strings.Count(lines, "present A") > 1+8+64 {
			t.Errorf("more addresses were told than added:\n%s", lines)
		}
		k.mu.Lock()
		if want := []int{1, 8, 64, 73, 1}; !slices.Equal(k.sizes, want) {
			t.Errorf("the batches were %v, want %v", k.sizes, want)
		}
		k.meet = nil
		k.mu.Unlock()
	})
}

// An error within a batch is that of one address, and of one that exists already there is none.
func TestErrorsWithinABatch(t *testing.T) {
	inBatches(t, func(t *testing.T, r *rig, _ *batches) {
		vips := many(100)
		must(t, r.k.Add("eth0", foreign(vips[50])))
		r.k.Fail(hosttest.OpAdd, pfx(vips[40]), 1, unix.ENOBUFS)
		r.Configure([]host.Set{set("A", vips...)})
		r.Want("A", true)
		r.settle()
		lines := strings.Split(r.j.take(), "\n")
		for n, vip := range vips {
			if !slices.Contains(lines, "present A "+vip) {
				t.Errorf("address %d is not told", n)
			}
		}
		if want := "error A " + vips[40]; len(lines) != 101 || !slices.Contains(lines, want) {
			t.Errorf("%d calls, want 101 with %q", len(lines), want)
		}
		must(t, r.Release())
		expect(t, r.addresses(), baseOnly)
	})
}
