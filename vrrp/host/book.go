package host

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host/fib"
)

const (
	fightWindow = 10 * time.Second      // how long a loss is remembered
	fightLimit  = 4                     // losses within the window that end the repairs
	fightPause  = 30 * time.Second      // until a static address that was fought over is tried again
	backoffMin  = 50 * time.Millisecond // first pause after a kernel error
	backoffMax  = 2 * time.Second       // longest pause
	verifyAfter = 20 * time.Millisecond // a write that no snapshot confirmed by then is looked up
	removeBatch = 128                   // removals between two looks at what else is asked
	addBatch    = 64                    // additions between two such looks, at most
	batchGrowth = 8                     // how many times as many as before they are
)

// key is what identifies an address to the kernel.
type key struct {
	dev    string
	prefix netip.Prefix
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.dev, o.dev), k.prefix.Compare(o.prefix))
}

// book is what the manager knows and plans. It is pure: no kernel, no clock, no goroutine. Facts go in through
// configure, want, state, sweep and done; the next thing to do comes out of next, what callers are to be told is
// left in events.
type book struct {
	instances map[string]*instance
	early     map[string]bool // wants of instances not configured yet
	entries   map[key]*entry
	vips      map[netip.Addr]bool
	order     []*instance // as configured

	last     State     // the newest snapshot
	lastOp   time.Time // when the kernel was last written
	lastRead time.Time // when a verification was last tried

	removals []*entry
	ring     []*instance // instances with additions to do, the next one first
	batch    int         // how many additions were last made at once; 0: there was nothing to add
	retries  []*entry    // entries that wait for their retryAt
	debts    []bystander // addresses that we owe to others
	events   []event
	unlisted bool // the state file is to be written when there is time
	guard    guard
	closed   bool // everything was given up for good

	fib      *fib.Book           // routes and rules
	recorded []byte              // those of the state file; nil: not known
	has      map[netip.Addr]bool // addresses of last, when routes ask for them
}

// instance is one Set and what is wanted of it.
type instance struct {
	set     Set
	wanted  bool
	hadBase bool // its interface had a base address when the addresses were asked for
	fit     bool // its interface is up and has the base address that it had
	users   []*user
	queue   []*entry // additions to do, in order
	fresh   []*user  // of a term of wanting that has just begun: not looked at yet
}

// user is one instance's use of one address.
type user struct {
	inst    *instance
	entry   *entry
	address Address
	told    bool // was told that the address is present
}

// entry is one address that vipd wants, has or had.
type entry struct {
	key
	users []*user
	rec   Addr // what was last asked of the kernel

	present bool      // it is in the kernel
	ours    bool      // and may be removed by us
	was     bool      // it was there since it was last asked for: a further addition is a repair
	dropped bool      // lost and not to be put back (NoTrack)
	fought  bool      // lost too often
	stale   bool      // present with other properties than wanted
	listed  bool      // in the state file
	queued  bool      // in an instance's queue or in removals
	index   int       // of the interface it was last seen on
	changed time.Time // when the kernel last acknowledged a change of it
	losses  []time.Time
	retryAt time.Time
	backoff time.Duration
	waiting bool // in retries
	err     error
}

type eventKind uint8

const (
	eventPresent eventKind = iota
	eventLost
	eventFought
	eventError
	eventWaits // wanted now, and its interface does not exist

	pathEvents // and those after it: kinds of fib.Event
)

type event struct {
	kind     eventKind
	instance string
	address  Address
	link     *Link
	err      error
	dev      string // of eventWaits: the name of what does not exist
}

func newBook() *book {
	return &book{
		instances: map[string]*instance{}, early: map[string]bool{},
		entries: map[key]*entry{}, vips: map[netip.Addr]bool{}, fib: fib.NewBook(),
	}
}

func (b *book) evaluateAll(now time.Time) {
	b.freshenAll(now)
	for _, in := range b.order {
		for _, u := range in.users {
			b.evaluate(now, u.entry)
		}
	}
	for k, e := range b.entries {
		if len(e.users) == 0 {
			b.evaluate(now, e)
			if !(e.present && e.ours) && !e.queued {
				b.unlisted = b.unlisted || e.listed
				delete(b.entries, k)
			}
		}
	}
}

// evaluate queues what is to be done about an entry, and tells its users when it is there.
func (b *book) evaluate(now time.Time, e *entry) {
	u := e.active()
	switch {
	case e.present && e.ours && (u == nil || e.stale):
		if b.due(now, e) && !e.queued {
			e.queued = true
			b.removals = append(b.removals, e)
		}
	case e.present:
		if u != nil && !e.ours {
			b.adopt(e, e.rec)
		}
		for _, u := range e.users {
			if u.inst.wanted && !u.told {
				u.told = true
				b.events = append(b.events, event{eventPresent, u.inst.set.Instance, u.address, b.last.Links[e.dev], nil, ""})
			}
		}
	case u != nil && b.addable(e, u):
		if b.due(now, e) && !e.queued {
			e.queued = true
			if len(u.inst.queue) == 0 {
				b.ring = append(b.ring, u.inst)
			}
			u.inst.queue = append(u.inst.queue, e)
		}
	}
}

// addable reports whether the address can be added: never to a missing interface, and a second time within one term
// of wanting only where a repair makes sense.
func (b *book) addable(e *entry, u *user) bool {
	return b.last.Links[e.dev] != nil && !e.fought && !e.dropped && (!e.was || b.repairable(e, u))
}

// due reports whether the entry's pause after an error is over; if not it is remembered for then.
func (b *book) due(now time.Time, e *entry) bool {
	if !e.retryAt.After(now) {
		return true
	}
	if !e.waiting {
		e.waiting = true
		b.retries = append(b.retries, e)
	}
	return false
}

func (b *book) tell(kind eventKind, e *entry, err error) {
	for _, u := range e.users {
		if u.inst.wanted || kind == eventError {
			b.events = append(b.events, event{kind, u.inst.set.Instance, u.address, b.last.Links[e.dev], err, ""})
		}
	}
}

// active is the first use by an instance that wants its addresses, or nil.
func (e *entry) active() *user {
	for _, u := range e.users {
		if u.inst.wanted {
			return u
		}
	}
	return nil
}

// owned reports whether the address is some instance's own one (priority 255).
func (e *entry) owned() bool {
	return slices.ContainsFunc(e.users, func(u *user) bool { return u.inst.set.Owner })
}

func (u *user) record() Addr {
	r := u.address.record()
	if u.inst.set.Owner {
		r.Proto = 0 // a base address
	}
	if u.inst.set.Static {
		r.Proto = ProtoStatic
	}
	return r
}

// gone reports whether a removal's error means that there is nothing to remove.
func gone(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV)
}
