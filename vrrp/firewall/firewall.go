package firewall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const (
	attempts   = 3                     // of a transaction that found other tables than were read
	settleGap  = 50 * time.Millisecond // between two looks at what others do
	retryEvery = 2 * time.Second       // while something fails
	lookEvery  = 10 * time.Second      // although nothing was heard
)

// Firewall keeps the rules. All methods may be called from any goroutine; those that change something return when the
// kernel has the rules.
type Firewall struct {
	kernel  Kernel
	log     *zap.Logger
	trouble func(error)
	poke    chan struct{} // capacity 1: others changed something

	turn   sync.Mutex // held by whoever calls the kernel; guards what follows
	wish   wish
	needed []Family // in which there may be addresses to refuse
	have   []Table  // what the kernel has, if known
	known  bool
	made   map[string]bool // tables that this process made
	old    string          // the name before, until nothing of it is left

	mu     sync.Mutex // guards what follows
	err    error      // why addresses are not refused
	silent error      // why links are not silenced
	heard  error      // why changes by others are not heard
	told   string     // the error that trouble heard last
}

// New returns the firewall of the vipd with this state directory. trouble hears, on whatever goroutine, why addresses
// cannot be refused, and with nil that they can be again; it must not call back. trouble and log may be nil.
func New(kernel Kernel, owner string, trouble func(error), log *zap.Logger) *Firewall {
	if log == nil {
		log = zap.NewNop()
	}
	if trouble == nil {
		trouble = func(error) {}
	}
	return &Firewall{
		kernel: kernel, log: log, trouble: trouble, poke: make(chan struct{}, 1), made: map[string]bool{},
		wish: wish{owner: owner, options: Options{Table: DefaultTable, Priority: DefaultPriority}},
	}
}

// Configure takes the options; what is in force is changed without a moment without rules. needed are the families of
// which there may be addresses to refuse later: it is tried now whether that works, and trouble hears of it before
// Configure returns. The error is the same.
func (f *Firewall) Configure(o Options, needed ...Family) error {
	f.turn.Lock()
	defer f.turn.Unlock()
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.Table != f.wish.options.Table {
		f.old, f.known = f.wish.options.Table, false
	}
	f.wish.options, f.needed = o, needed
	f.settle()
	f.probe()
	return f.judge()
}

// Refuse replaces the refused addresses, all at once, and returns when the kernel has the rules.
func (f *Firewall) Refuse(addresses []Address) error {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.wish.refused = map[Address]bool{}
	for _, a := range addresses {
		f.wish.refused[a] = true
	}
	before := f.failure()
	if f.settle(); before != nil && len(addresses) == 0 && f.failure() == nil {
		f.fail(before) // nothing was proved: Run tries
	}
	return f.judge()
}

// Silence replaces the silenced links, all at once, and returns when the kernel has the rules. A link need not exist
// yet. The wish is kept when it fails, and tried again by Run; addresses are refused all the same.
func (f *Firewall) Silence(links []Link) error {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.wish.silent = map[string]int{}
	for _, l := range links {
		f.wish.silent[l.Name] = l.Parent
	}
	f.settle()
	// Only addresses that are accepted although they must not be are a reason to give up: see trouble.
	_ = f.judge()
	return f.silent
}

// Sweep removes what a crashed predecessor with the same state directory left, and returns its tables. Call it before
// anything else but after the addresses that it left are gone.
func (f *Firewall) Sweep() (found []string, err error) {
	f.turn.Lock()
	defer f.turn.Unlock()
	tables, err := f.kernel.Tables(f.wish.owner)
	if errors.Is(err, ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ops []Op
	for i := range tables {
		t := &tables[i]
		if !f.made[t.ref()] {
			ops = append(ops, Op{Kind: OpDelete, Family: t.Family, Table: t.Name})
			found = append(found, t.ref())
		}
	}
	if len(ops) == 0 {
		return nil, nil
	}
	return found, f.kernel.Commit(ops)
}

// Release removes everything.
func (f *Firewall) Release() error {
	f.turn.Lock()
	defer f.turn.Unlock()
	f.wish.refused, f.wish.silent, f.needed = nil, nil, nil
	f.settle()
	return f.judge()
}

// Status says what does not work: why addresses are not refused, why links are not silenced.
func (f *Firewall) Status() (refusing, silencing error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err, f.silent
}

// Run puts back what others take away, until ctx ends; it then returns nil. What is in force stays: see Release.
func (f *Firewall) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { f.watch(ctx) })
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.poke:
			sleep(ctx, settleGap-time.Since(f.look()))
		case <-look.C:
			f.look()
		}
		look.Reset(f.next())
	}
}

// next says how long until the next look.
func (f *Firewall) next() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.silent != nil || f.heard != nil {
		return retryEvery
	}
	return lookEvery
}

// look compares the kernel with the wish, puts right what differs, and returns when it began.
func (f *Firewall) look() (began time.Time) {
	f.turn.Lock()
	defer f.turn.Unlock()
	began = time.Now()
	failed := f.failure()
	if len(f.wish.refused)+len(f.wish.silent)+len(f.made) == 0 && failed == nil {
		return began
	}
	f.known = false
	changed := f.settle()
	if failed != nil {
		f.probe()
	} else if changed {
		f.log.Warn("others changed vipd's nftables rules; they are put back: keep table "+f.wish.options.Table+" when the ruleset is loaded anew (flush your own tables, not the ruleset)",
			zap.NamedError("err", f.failure()))
	}
	_ = f.judge() // trouble hears of it
	return began
}

// watch listens to changes, again and again when that fails.
func (f *Firewall) watch(ctx context.Context) {
	for ctx.Err() == nil {
		err := guarded(func() error {
			return f.kernel.Watch(ctx, func() {
				f.hear(nil)
				select {
				case f.poke <- struct{}{}:
				default:
				}
			})
		})
		if ctx.Err() == nil {
			f.hear(err)
			sleep(ctx, retryEvery)
		}
	}
}

// hear notes whether changes are heard.
func (f *Firewall) hear(err error) {
	f.mu.Lock()
	first := err != nil && f.heard == nil
	f.heard = err
	f.mu.Unlock()
	if first && !errors.Is(err, ErrUnsupported) {
		f.log.Warn("changes of the nftables rules by others are not heard; looking every "+retryEvery.String(), zap.NamedError("err", err))
	}
}

// settle makes the kernel agree with the wish, and reports whether there was something to do. Its errors are left in
// err and silent.
func (f *Firewall) settle() (changed bool) {
	changed, err := f.try(&f.wish)
	var silent error
	if err != nil && len(f.wish.silent) > 0 {
		silent = fmt.Errorf("keeping IGMP, MLD and router solicitations of virtual-MAC links off the network: %w", err)
		less := f.wish
		less.silent = nil
		changed, err = f.try(&less)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if silent != nil && f.silent == nil {
		f.log.Error("a switch may learn a virtual MAC at the wrong port; trying again", zap.NamedError("err", silent))
	}
	f.silent, f.err = silent, err
	return changed
}

// try makes the kernel agree with one wish.
func (f *Firewall) try(w *wish) (changed bool, err error) {
	for range attempts {
		if !f.known {
			if f.have, err = f.read(); err != nil {
				return changed, err
			}
		}
		var ops []Op
		if ops, err = w.plan(f.have, f.made); err != nil || len(ops) == 0 {
			f.known = err == nil
			return changed, err
		}
		changed, f.known = true, false
		if err = f.kernel.Commit(ops); err == nil {
			f.done(ops)
			return changed, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EBUSY) {
			return changed, err
		}
	}
	return changed, err
}

// read looks at the tables of our names. Without nftables there are none.
func (f *Firewall) read() ([]Table, error) {
	names := []string{f.wish.options.Table}
	if f.old != "" && f.old != names[0] {
		names = append(names, f.old)
	}
	tables, err := f.kernel.Tables(f.wish.owner, names...)
	if errors.Is(err, ErrUnsupported) && len(f.wish.refused)+len(f.wish.silent) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(f.made, func(ref string, _ bool) bool {
		return !slices.ContainsFunc(tables, func(t Table) bool { return t.ref() == ref })
	})
	return tables, nil
}

// done notes a transaction that was acknowledged.
func (f *Firewall) done(ops []Op) {
	f.have, f.known = after(f.have, ops), true
	for _, op := range ops {
		switch ref := string(op.Family) + " " + op.Table; op.Kind {
		case OpCreate:
			f.made[ref] = true
		case OpDelete:
			delete(f.made, ref)
		}
	}
	if len(ops) > 0 {
		f.old = ""
	}
}

// probe tries whether addresses could be refused: it makes the tables, and removes them in the same transaction.
func (f *Firewall) probe() {
	if f.failure() != nil {
		return
	}
	test := wish{options: f.wish.options, owner: f.wish.owner, refused: map[Address]bool{}}
	var ops []Op
	for _, family := range f.needed {
		if w, _ := f.wish.table(family); w != nil {
			continue // they are there
		}
		test.refused[Address{Addr: map[Family]netip.Addr{IPv4: netip.IPv4Unspecified(), IPv6: netip.IPv6Unspecified()}[family]}] = true
		ops = append(ops, Op{Kind: OpDelete, Family: family, Table: test.options.Table})
	}
	if len(ops) == 0 {
		return
	}
	have, err := f.kernel.Tables(test.owner, test.options.Table)
	have = slices.DeleteFunc(have, func(t Table) bool {
		return !slices.ContainsFunc(ops, func(o Op) bool { return o.Family == t.Family })
	})
	if err == nil {
		var make []Op
		if make, err = test.plan(have, f.made); err == nil {
			err = f.kernel.Commit(append(make, ops...))
		}
	}
	f.fail(err)
}

// judge tells trouble whether addresses can be refused when that has changed, and returns the same.
func (f *Firewall) judge() error {
	f.mu.Lock()
	err, text := f.err, ""
	if err != nil {
		text = err.Error()
	}
	changed := text != f.told
	f.told = text
	f.mu.Unlock()
	if changed {
		f.trouble(err)
	}
	return err
}

// failure is why addresses are not refused, nil when they are.
func (f *Firewall) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *Firewall) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// guarded turns a panic into an error: looking now and then goes on without hearing.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
