package reconcile_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/reconcile"
)

// action is one step of a random walk, drawn beforehand because the walk itself runs in a bubble.
type action struct {
	kind string // "set", "fail", "heal", "blind", "edit", "foreign", "flush", "sleep", "restart"
	want ipvs.Table
	ops  []ipvs.Op
	fail map[ipvs.OpKind]bool
	err  error
	dt   time.Duration
}

// Of the eight services the first four are ours, the last two, with firewall marks, another program's.
func mine() []ipvs.Service      { return ipvstest.Services()[:4] }
func strangers() []ipvs.Service { return ipvstest.Services()[6:] }

func drawAction(t *rapid.T) action {
	a := action{kind: rapid.SampledFrom([]string{"set", "set", "set", "fail", "heal", "blind", "edit", "foreign", "flush", "sleep", "sleep", "restart"}).Draw(t, "kind")}
	switch a.kind {
	case "set":
		a.want = drawTable(t)
	case "fail":
		a.fail = map[ipvs.OpKind]bool{}
		for kind := ipvs.AddService; kind <= ipvs.DelDestination; kind++ {
			a.fail[kind] = rapid.Bool().Draw(t, "fails")
		}
		a.err = rapid.SampledFrom([]error{unix.ENOMEM, unix.EEXIST, unix.ENOENT, unix.ESRCH, unix.EINTR}).Draw(t, "errno")
	case "edit":
		a.ops = drawEdits(t, mine())
	case "foreign":
		a.ops = drawEdits(t, strangers())
	case "sleep":
		a.dt = time.Duration(rapid.IntRange(0, 7000).Draw(t, "ms")) * time.Millisecond
	}
	return a
}

func drawTable(t *rapid.T) ipvs.Table {
	out := ipvs.Table{}
	for _, s := range mine() {
		if !rapid.Bool().Draw(t, "wanted") {
			continue
		}
		s = ipvstest.DrawService(t, s)
		out.AddService(s)
		for n := range 4 {
			if rapid.IntRange(0, 4).Draw(t, "in") > 1 {
				out.AddDestination(s.Key, ipvstest.DrawServer(t, s, n+1))
			}
		}
	}
	return out
}

func drawEdits(t *rapid.T, services []ipvs.Service) []ipvs.Op {
	var out []ipvs.Op
	for range rapid.IntRange(1, 4).Draw(t, "edits") {
		s := rapid.SampledFrom(services).Draw(t, "service")
		kind := ipvs.OpKind(rapid.IntRange(0, 5).Draw(t, "verb"))
		out = append(out, ipvs.Op{Kind: kind, Service: ipvstest.DrawService(t, s),
			Destination: ipvstest.DrawServer(t, s, rapid.IntRange(1, 5).Draw(t, "server"))})
	}
	return out
}

// TestRandomWalk: after any sequence of wanted tables, refused changes, unreadable kernels, edits by others and restarts,
// the kernel is as planned; no change ever touched another program's service, and none emptied a pool that is wanted
// usable.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		actions := make([]action, rapid.IntRange(1, 25).Draw(rt, "length"))
		for i := range actions {
			actions[i] = drawAction(rt)
		}
		var err error
		synctest.Test(t, func(t *testing.T) { err = walk(t, actions) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// walker is the world of one random walk.
type walker struct {
	k       *ipvstest.Kernel
	file    string
	r       *reconcile.Reconciler
	stop    func()
	want    ipvs.Table // nil before the first Set
	foreign ipvs.Table
	wrong   []error
	blind   atomic.Bool // the kernel cannot be read
	edited  atomic.Bool // others have changed our services since it was last healed
}

func walk(t *testing.T, actions []action) error {
	w := &walker{k: ipvstest.New(), file: filepath.Join(t.TempDir(), "ipvs"), foreign: ipvs.Table{}}
	for _, s := range strangers() {
		w.foreign.AddService(s)
		w.k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: s})
	}
	w.k.Observe(w.observe)
	w.r, w.stop = start(t, w.k, w.file)
	for _, a := range actions {
		w.act(t, a)
		synctest.Wait()
	}
	w.k.Fail(nil)
	w.k.FailRead(nil)
	time.Sleep(11 * time.Second)
	synctest.Wait()
	w.judge(t)
	w.stop()
	return errors.Join(w.wrong...)
}

// observe judges every single change.
func (w *walker) observe(op ipvs.Op, err error, before, after ipvs.Pool) {
	key := op.Service.Key
	if key.FWMark != 0 {
		w.wrong = append(w.wrong, fmt.Errorf("%s touches a foreign service", op))
	}
	// What others did to a kernel that cannot be read, nobody can know.
	excused := w.blind.Load() && w.edited.Load()
	if before.Usable() && w.want[key].Usable() && !after.Usable() && !excused {
		w.wrong = append(w.wrong, fmt.Errorf("%s (answer %v) empties the pool", op, err))
	}
}

func (w *walker) act(t *testing.T, a action) {
	switch a.kind {
	case "set":
		w.want = a.want
		w.r.Set(w.want)
	case "fail":
		w.k.Fail(func(op ipvs.Op) error {
			if a.fail[op.Kind] {
				return a.err
			}
			return nil
		})
	case "heal":
		w.k.Fail(nil)
		w.k.FailRead(nil)
		w.blind.Store(false)
		w.edited.Store(false)
	case "blind":
		w.blind.Store(true)
		w.k.FailRead(errors.New("unreadable"))
	case "edit":
		w.edited.Store(true)
		for _, op := range a.ops {
			// Who adds a service that we do not have makes it his own.
			if _, ours := w.r.Status().Kernel.Table[op.Service.Key]; ours || op.Kind != ipvs.AddService {
				w.k.Edit(op)
			}
		}
	case "foreign":
		w.k.Edit(a.ops...)
		w.foreign = onlyForeign(w.k.Table())
	case "flush":
		w.edited.Store(true)
		w.k.Flush()
		w.foreign = ipvs.Table{}
	case "sleep":
		time.Sleep(a.dt)
	case "restart":
		w.stop()
		w.r, w.stop = start(t, w.k, w.file)
		if w.want != nil {
			w.r.Set(w.want)
		}
	}
}

// judge compares the kernel with the plan, and again after the release.
func (w *walker) judge(t *testing.T) {
	started := w.want != nil
	if started {
		all := w.want.Clone()
		maps.Copy(all, w.foreign)
		if got := w.k.Table(); !got.Equal(all) {
			w.wrong = append(w.wrong, fmt.Errorf("the kernel has\n%swant\n%s", got, all))
		}
		if s := w.r.Status(); !s.InSync() || len(s.Failures) != 0 {
			w.wrong = append(w.wrong, fmt.Errorf("status %+v", s))
		}
	}
	w.want = nil // from here on pools may be emptied
	if err := w.r.Release(t.Context()); err != nil {
		w.wrong = append(w.wrong, err)
	}
	if got := w.k.Table(); started && !got.Equal(w.foreign) {
		w.wrong = append(w.wrong, fmt.Errorf("after the release the kernel has\n%swant\n%s", got, w.foreign))
	}
}

func onlyForeign(t ipvs.Table) ipvs.Table {
	out := ipvs.Table{}
	for _, s := range strangers() {
		if p, ok := t[s.Key]; ok {
			out[s.Key] = p
		}
	}
	return out
}
