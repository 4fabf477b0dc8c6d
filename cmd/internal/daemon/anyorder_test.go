package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/plan/plantest"
	"vipd/ipvs/reconcile"
	"vipd/vrrp/host"
)

// orderSteps is the number of events of one sequence.
const orderSteps = 25

// TestAnyOrder: after any order of results, orders, reloads, changes of place, time, connections, hand edits, refusals of
// the kernel, crashes and restarts the kernel's table is as planned and as the documentation has it; no change touched a
// service that it need not, left a pool without a server that had one before and after, or cut a connection off that
// may go on; and when all is quiet nothing is left over. (300 sequences; 10,000 with VIPD_LONG=1. With VIPD_WALKS=kernel
// 10, or 200, against the kernel's table, too: see test/anyorder.)
func TestAnyOrder(t *testing.T) {
	few, many := uint64(300), uint64(10_000)
	if os.Getenv("VIPD_WALKS") == "kernel" {
		few, many = 10, 200
	}
	n := plantest.Walks(few, many)
	dir, wrong := t.TempDir(), 0
	for seed := range n {
		var err error
		synctest.Test(t, func(t *testing.T) { err = anyOrder(t, dir, seed) })
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			if wrong++; wrong == 3 {
				return
			}
		}
	}
}

// keeper passes wanted tables on and has the last one.
type keeper struct {
	*reconcile.Reconciler
	mu     sync.Mutex
	wanted ipvs.Table
}

func (k *keeper) Set(t ipvs.Table) {
	k.mu.Lock()
	k.wanted = t
	k.mu.Unlock()
	k.Reconciler.Set(t)
}

func (k *keeper) last() ipvs.Table {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wanted
}

// kernelChange is one change of the kernel's table that the reconciler asked for.
type kernelChange struct {
	op            ipvs.Op
	before, after ipvs.Pool
	open          ipvs.Connections // at the server before
	at            time.Time
}

// world is what one sequence of events changes.
type world struct {
	*rand.Rand
	mu    sync.Mutex // guards conns and changes
	t     *testing.T
	dir   string
	k     *lossy
	story []string

	servers   []conf.VirtualServer
	checks    *fakeChecks
	addresses *fakeAddresses
	places    *whereabouts
	b         *balancer
	r         *keeper
	stop      func()

	master, here bool
	conns        map[ipvs.Target]ipvs.Connections
	foreign      ipvs.Table
	gone         map[ipvs.Target]time.Time // since when a server is configured no more
	sick         map[string]bool           // checks that failed last
	down         map[ipvs.Target]bool      // servers that were down before the present event
	trouble      bool                      // the kernel refuses or loses
	blind        bool                      // and cannot be read
	disturbed    time.Time                 // when the kernel was last not as it should be, or edited by hand
	edited       bool                      // in the present event
	asleep       bool                      // the present event lets time pass
	changes      []kernelChange            // of the present event
}

func anyOrder(t *testing.T, dir string, seed uint64) (err error) {
	w := &world{
		Rand: rand.New(rand.NewPCG(seed, 2)), t: t, k: newLossy(), conns: map[ipvs.Target]ipvs.Connections{},
		dir: filepath.Join(dir, fmt.Sprint(seed)), foreign: ipvs.Table{}, gone: map[ipvs.Target]time.Time{}, sick: map[string]bool{},
	}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(w.dir)
	defer func() { err = errors.Join(err, w.k.close()) }()
	other := ipvstest.Services()[6]
	w.k.Edit(ipvs.Op{Kind: ipvs.AddService, Service: other}, ipvs.Op{Kind: ipvs.AddDestination, Service: other, Destination: ipvstest.Server(other, 9, ipvs.DR, 3)})
	w.foreign = w.k.Table()
	w.k.Observe(w.observe)
	w.story = append(w.story, w.reload())
	w.start()
	synctest.Wait()
	for range orderSteps {
		before := w.plan()
		w.down = w.downNow()
		w.edited, w.asleep = false, false
		w.mu.Lock()
		w.changes = nil
		w.mu.Unlock()
		w.story = append(w.story, w.event())
		synctest.Wait()
		if err := cmp.Or(w.judge(before), w.k.apart()); err != nil {
			return w.tell(err)
		}
	}
	return w.tell(w.end())
}

func (w *world) tell(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\nafter:\n%s\nkernel:\n%s\nplan:\n%s", err, strings.Join(w.story, "\n"), w.k, w.plan())
}

// plan is the table that the balancer wants.
func (w *world) plan() ipvs.Table {
	if w.b == nil {
		return ipvs.Table{}
	}
	return w.r.last().Clone()
}

// start runs a vipd on what the kernel has.
func (w *world) start() {
	w.checks, w.addresses = &fakeChecks{}, &fakeAddresses{}
	w.r = &keeper{Reconciler: reconcile.New(w.k, filepath.Join(w.dir, "services"), zap.NewNop())}
	w.b = newBalancer(w.checks, w.r, func(string) {}, zap.NewNop())
	w.places = newWhereabouts(w.addresses, w.b.Moved, zap.NewNop())
	w.b.places, w.places.settled = w.places, w.r.Settle
	w.b.Recall(filepath.Join(w.dir, "overrides.json"))
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 3)
	for _, f := range []func(context.Context) error{w.r.Run, w.places.Run, w.b.Run} {
		go func() { done <- f(ctx) }()
	}
	w.stop = func() {
		cancel()
		for range 3 {
			if err := <-done; err != nil {
				w.t.Error(err)
			}
		}
	}
	if found, err := w.k.Read(); err == nil {
		w.b.Found(found.Table)
		w.b.Took(found.Table)
	}
	w.where()
	w.configure()
}

// where tells of the host's addresses.
func (w *world) where() {
	l := &host.Link{}
	if w.here {
		l.Addrs = []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.100/32")}}
	}
	w.places.State(&host.State{Links: map[string]*host.Link{"eth0": l}})
	w.places.Want("VI_1", w.master)
	if !w.master {
		w.addresses.remove()
	}
}

// configure hands a copy of the configuration over, as each reload does.
func (w *world) configure() {
	servers := make([]conf.VirtualServer, len(w.servers))
	for i, v := range w.servers {
		v.RealServers = append([]conf.RealServer(nil), v.RealServers...)
		servers[i] = v
	}
	if err := w.b.Configure(servers); err != nil {
		w.t.Error(err)
	}
	w.r.Reread()
}

func (w *world) observe(op ipvs.Op, err error, before, after ipvs.Pool) {
	if err != nil {
		return
	}
	t := op.Target()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, kernelChange{op: op, before: clonePool(before), after: clonePool(after), open: w.conns[t], at: time.Now()})
	switch op.Kind {
	case ipvs.DelDestination:
		delete(w.conns, t)
	case ipvs.DelService:
		for c := range w.conns {
			if c.Service == t.Service {
				delete(w.conns, c)
			}
		}
	}
}

func clonePool(p ipvs.Pool) ipvs.Pool {
	return ipvs.Table{p.Service.Key: p}.Clone()[p.Service.Key]
}

// event changes something and says what.
func (w *world) event() string {
	switch n := w.IntN(100); {
	case n < 22:
		return w.result()
	case n < 40:
		return w.order()
	case n < 55:
		what := w.reload()
		w.configure()
		return what
	case n < 70:
		return w.pass(time.Duration(w.IntN(12_000)) * time.Millisecond)
	case n < 80:
		return w.traffic(2)
	case n < 86:
		return w.move()
	case n < 91:
		return w.hand()
	case n < 97:
		return w.refuse()
	}
	return w.restart()
}

// pass lets time pass.
func (w *world) pass(d time.Duration) string {
	w.asleep = true
	time.Sleep(d)
	return "time " + d.String()
}

// traffic opens and ends connections in the kernel; of those that it has, one in end ends.
func (w *world) traffic(end int) string {
	for k, pool := range w.k.Table() {
		for a, d := range pool.Destinations {
			t := ipvs.Target{Service: k, Destination: a}
			c := w.conns[t]
			if d.Usable() {
				c.Active += uint32(w.IntN(2))
				c.Inactive += uint32(w.IntN(2))
			}
			if w.IntN(end) == 0 {
				c = ipvs.Connections{}
			}
			w.mu.Lock()
			w.conns[t] = c
			w.mu.Unlock()
			w.k.SetConnections(t, c)
		}
	}
	return "traffic"
}

// move makes the instance MASTER or BACKUP, and brings or takes the address.
func (w *world) move() string {
	if w.IntN(2) == 0 {
		w.master = !w.master
	} else {
		w.here = !w.here
	}
	w.where()
	time.Sleep(2 * goneEvery)
	return fmt.Sprintf("master %v, address here %v", w.master, w.here)
}

// hand changes our services, or another's, behind vipd's back.
func (w *world) hand() string {
	w.disturbed, w.edited = time.Now(), true
	if w.IntN(6) == 0 {
		w.k.Flush()
		w.mu.Lock()
		clear(w.conns)
		w.mu.Unlock()
		w.foreign = ipvs.Table{}
		return "flushed by hand"
	}
	what := "by hand:"
	for range 1 + w.IntN(3) {
		op := ipvs.Op{Kind: ipvs.OpKind(w.IntN(6))}
		op.Service = ipvs.Service{Key: anyOrderKeys()[w.IntN(4)], Scheduler: "lc"}
		if _, there := w.k.Table()[op.Service.Key]; !there {
			continue // who makes a service that we do not have makes it his own
		}
		op.Destination = ipvs.Destination{Address: anyServer(1 + w.IntN(6)), Method: ipvs.NAT, Weight: w.IntN(3)}
		w.k.Edit(op)
		what += " " + op.String()
	}
	w.foreign = w.k.Table()
	for _, k := range anyOrderKeys()[:3] {
		delete(w.foreign, k)
	}
	return what
}

// refuse begins or ends trouble with the kernel.
func (w *world) refuse() string {
	if w.trouble || w.blind {
		w.heal()
		return "the kernel is well again"
	}
	w.disturbed = time.Now()
	switch w.IntN(4) {
	case 0:
		w.blind = true
		w.k.FailRead(errors.New("unreadable"))
		return "the kernel cannot be read"
	case 1:
		w.trouble, w.k.lost = true, true
		return "answers are lost"
	}
	w.trouble = true
	errno := []error{unix.EBUSY, unix.ENOMEM, unix.ENOENT, unix.EEXIST, os.ErrDeadlineExceeded}[w.IntN(5)]
	kinds := 1 + w.IntN(63)
	w.k.Fail(func(op ipvs.Op) error {
		if kinds&(1<<op.Kind) != 0 && !isForeign(op.Service.Key) {
			return errno
		}
		return nil
	})
	return fmt.Sprintf("%v for kinds %06b", errno, kinds)
}

func (w *world) heal() {
	w.trouble, w.blind, w.k.lost, w.disturbed = false, false, false, time.Now()
	w.k.Fail(nil)
	w.k.FailRead(nil)
}

// restart ends vipd, by a crash or in order, and starts it again.
func (w *world) restart() string {
	w.heal()
	what := "crash"
	if w.IntN(2) == 0 {
		what = "restart"
		w.b.Omega()
		if err := w.r.Release(w.t.Context()); err != nil {
			w.t.Error(err)
		}
	}
	w.stop()
	w.disturbed, w.edited = time.Now(), true
	w.start()
	return what
}
