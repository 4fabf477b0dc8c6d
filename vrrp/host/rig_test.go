package host_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/hosttest"
)

// journal records callbacks.
type journal struct {
	mu    sync.Mutex // guards lines, errs
	lines []string
	errs  []error
	lack  []host.Missing
	at    map[string]time.Time // of the last line of its kind
}

func (j *journal) add(kind, instance string, a host.Address) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%s %s %s", kind, instance, a.Prefix)
	j.lines = append(j.lines, line)
	if j.at == nil {
		j.at = map[string]time.Time{}
	}
	j.at[line] = time.Now()
}

func (j *journal) callbacks() host.Callbacks {
	return host.Callbacks{
		Present: func(i string, a host.Address, l *host.Link) {
			if l == nil {
				panic("present without an interface")
			}
			j.add("present", i, a)
		},
		FoughtPath: func(i string, o fib.Object) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.lines = append(j.lines, "fought "+o.Kind()+" "+i+" "+o.String())
		},
		Missing: func(all []host.Missing) {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.lack = all
		},
		Lost:   func(i string, a host.Address) { j.add("lost", i, a) },
		Fought: func(i string, a host.Address) { j.add("fought", i, a) },
		Error: func(i string, a host.Address, err error) {
			j.add("error", i, a)
			j.mu.Lock()
			defer j.mu.Unlock()
			j.errs = append(j.errs, err)
		},
	}
}

// take returns the lines since the last call.
func (j *journal) take() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := strings.Join(j.lines, "\n")
	j.lines = nil
	return s
}

// peek returns the same and leaves them.
func (j *journal) peek() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// missing prints the static objects that cannot be put back now.
func (j *journal) missing() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lines []string
	for _, m := range j.lack {
		lines = append(lines, m.Group+" "+m.What+": "+m.Why)
	}
	return strings.Join(lines, "\n")
}

func (j *journal) when(line string) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at[line]
}

// rig is a manager on an in-memory kernel, in a synctest bubble.
type rig struct {
	*host.Manager
	t      *testing.T
	k      *hosttest.Kernel
	j      *journal
	file   string
	cancel context.CancelFunc
	done   chan error
}

// newRig makes a kernel with eth0 (base address 10.9.0.11/24), eth1 (192.0.2.1/24) and a running manager whose
// kernel events arrive at once.
func newRig(t *testing.T) *rig {
	t.Helper()
	k := hosttest.New()
	k.NewLink("eth0")
	k.NewLink("eth1")
	base(t, k)
	r := &rig{t: t, k: k, file: filepath.Join(t.TempDir(), "addresses.json")}
	r.start()
	return r
}

func base(t *testing.T, k *hosttest.Kernel) {
	t.Helper()
	must(t, k.Add("eth0", foreign("10.9.0.11/24")))
	must(t, k.Add("eth1", foreign("192.0.2.1/24")))
}

func foreign(s string) host.Addr {
	a := addr(s)
	a.Proto, a.Flags = 0, 0
	return a
}

func (r *rig) start() {
	r.j = &journal{}
	r.Manager = host.NewManager(r.k, r.k, r.file, r.j.callbacks(), nil)
	m := r.Manager
	r.k.OnChange(func() {
		if s, err := r.k.State(); err == nil {
			m.State(s)
		}
	})
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel, r.done = cancel, make(chan error, 1)
	m := r.Manager
	go func() { r.done <- m.Run(ctx) }()
	r.settle()
}

// stop ends the manager without a farewell, as a crash does.
func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	must(r.t, <-r.done)
	r.k.OnChange(nil)
}

// settle lets everything happen that is due within 100 ms.
func (r *rig) settle() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func vip(s string) host.Address { return host.Address{Prefix: pfx(s)} }

func set(name string, vips ...string) host.Set {
	s := host.Set{Instance: name, Interface: "eth0"}
	for _, v := range vips {
		s.Addresses = append(s.Addresses, vip(v))
	}
	return s
}

// inBubble runs the test in a synctest bubble with a running manager.
func inBubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		f(t, r)
		r.stop()
	})
}

const baseOnly = "ip addr add 10.9.0.11/24 dev eth0\nip addr add 192.0.2.1/24 dev eth1\n"

// addresses prints the kernel without IPv6 link-local addresses.
func (r *rig) addresses() string {
	var out string
	for line := range strings.Lines(r.k.String()) {
		if !strings.Contains(line, "fe80:") {
			out += line
		}
	}
	return out
}
