package reconcile_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
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
		s.Scheduler = rapid.SampledFrom([]string{"rr", "wlc"}).Draw(t, "scheduler")
		out.AddService(s)
		for n := range 4 {
			if w := rapid.IntRange(-2, 2).Draw(t, "weight"); w >= 0 {
				out.AddDestination(s.Key, ipvstest.Server(s, n+1, ipvs.DR, w))
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
		out = append(out, ipvs.Op{Kind: kind, Service: s,
			Destination: ipvstest.Server(s, rapid.IntRange(1, 5).Draw(t, "server"), ipvs.DR, rapid.IntRange(0, 2).Draw(t, "weight"))})
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

func walk(t *testing.T, actions []action) error {
	k, file := ipvstest.New(), filepath.Join(t.TempDir(), "ipvs")
	var want, foreign ipvs.Table
	foreign = ipvs.Table{}
	for _, s := range strangers() {
		foreign.AddService(s)
		k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: s})
	}
	var wrong []error
	k.Observe(func(op ipvs.Op, err error, before, after ipvs.Pool) {
		key := op.Service.Key
		if key.FWMark != 0 {
			wrong = append(wrong, fmt.Errorf("%s touches a foreign service", op))
		}
		if before.Usable() && want[key].Usable() && !after.Usable() {
			wrong = append(wrong, fmt.Errorf("%s (%v) empties the pool", op, err))
		}
	})
	r, stop := start(t, k, file)
	for _, a := range actions {
		switch a.kind {
		case "set":
			want = a.want
			r.Set(want)
		case "fail":
			k.Fail(func(op ipvs.Op) error {
				if a.fail[op.Kind] {
					return a.err
				}
				return nil
			})
		case "heal":
			k.Fail(nil)
			k.FailRead(nil)
		case "blind":
			k.FailRead(errors.New("unreadable"))
		case "edit":
			for _, op := range a.ops {
				// Who adds a service that we do not have makes it his own.
				if _, ours := r.Status().Kernel.Table[op.Service.Key]; ours || op.Kind != ipvs.AddService {
					k.Edit(op)
				}
			}
		case "foreign":
			k.Edit(a.ops...)
			foreign = onlyForeign(k.Table())
		case "flush":
			k.Flush()
			foreign = ipvs.Table{}
		case "sleep":
			time.Sleep(a.dt)
		case "restart":
			stop()
			r, stop = start(t, k, file)
			if want != nil {
				r.Set(want)
			}
		}
		synctest.Wait()
	}
	k.Fail(nil)
	k.FailRead(nil)
	time.Sleep(11 * time.Second)
	synctest.Wait()
	if want != nil {
		all := want.Clone()
		for key, p := range foreign {
			all[key] = p
		}
		if got := k.Table(); !got.Equal(all) {
			wrong = append(wrong, fmt.Errorf("the kernel has\n%swant\n%s", got, all))
		}
		if s := r.Status(); !s.InSync() || len(s.Failures) != 0 {
			wrong = append(wrong, fmt.Errorf("status %+v", s))
		}
	}
	started := want != nil
	want = nil // now pools may be emptied
	if err := r.Release(t.Context()); err != nil {
		wrong = append(wrong, err)
	}
	if got := k.Table(); started && !got.Equal(foreign) {
		wrong = append(wrong, fmt.Errorf("after the release the kernel has\n%swant\n%s", got, foreign))
	}
	stop()
	return errors.Join(wrong...)
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
