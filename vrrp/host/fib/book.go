package fib

import (
	"net/netip"
	"slices"
	"time"
)

const (
	fightWindow = 10 * time.Second       // how long a loss is remembered
	fightLimit  = 4                      // losses within the window that end the repairs
	fightPause  = 30 * time.Second       // until a static object that was fought over is tried again
	stirTime    = 300 * time.Millisecond // a loss so soon after one of its interface is the kernel's doing
	backoffMin  = 50 * time.Millisecond  // first pause after an error
	backoffMax  = 2 * time.Second        // longest pause
)

// Want is one route or rule of a set.
type Want struct {
	Object
	NoTrack bool   // not put back when somebody deletes it
	Group   string // of static ones: who needs it
}

// Set is what one owner has: an instance, or vipd as a whole.
type Set struct {
	Owner  string
	Static bool   // wanted in every state
	Wants  []Want // in the order in which they are to be added: routes, then rules
}

// Link is what counts of an interface.
type Link struct {
	Up       bool
	VRFTable uint32 // 0: it is no VRF
}

// Env is what decides whether an object can be in the kernel.
type Env struct {
	Link func(dev string) (Link, bool) // false: there is no such interface
	Has  func(netip.Addr) bool         // the address is on some interface
}

// EventKind says what became of an object.
type EventKind uint8

// The kinds of events.
const (
	EventLost   EventKind = iota // it is gone though wanted
	EventBack                    // it is there again
	EventFought                  // it was lost a fourth time within ten seconds
	EventError                   // the kernel refused it
)

// Event is something that an operator or an instance must know.
type Event struct {
	Kind   EventKind
	Owner  string
	Static bool
	Object Object
	Err    error
}

// Book is what is wanted of routes and rules, what is there, and what is to be done.
// Facts go in through Configure, Want, Observe, Sweep and Done; Urgent and Next give the
// next things to do.
type Book struct {
	owners  map[string]*owner
	order   []*owner
	early   map[string]bool // wants of owners not configured yet
	entries map[string]*entry
	list    []*entry // those that somebody has, in order
	orphans []*entry // those that nobody has any more
	stirred map[string]time.Time
	events  []Event
	changed bool // what Recorded returns may have changed
	leaving bool // Urgent may have something to do
	closed  bool
}

type owner struct {
	set    Set
	wanted bool
}

type user struct {
	owner *owner
	want  Want
}

// entry is one object that is wanted, there or was there.
type entry struct {
	Object
	users []user

	present  bool    // it is in the kernel
	ours     bool    // and may be removed by us
	was      bool    // it was there since it was last asked for
	dropped  bool    // lost and not to be put back
	fought   bool    // lost too often
	alien    bool    // an equal one of others is in the way
	retired  bool    // only this one of its owner's is not wanted any more: its successors go first
	recorded bool    // in the state file
	parts    []Route // what the kernel left of it
	waits    string  // what it waits for
	err      error
	changed  time.Time // when the kernel last acknowledged a change of it
	losses   []time.Time
	retryAt  time.Time
	backoff  time.Duration
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{owners: map[string]*owner{}, early: map[string]bool{}, entries: map[string]*entry{}, stirred: map[string]time.Time{}}
}

// Configure replaces all sets. What is the same before and after is not touched.
func (b *Book) Configure(sets []Set) {
	before := map[*entry]bool{} // entries whose owner goes on
	old := b.owners
	for _, e := range b.list {
		before[e] = e.active() != nil
	}
	b.owners, b.order = make(map[string]*owner, len(sets)), nil
	for _, e := range b.entries {
		e.users = nil
	}
	all := b.orphans
	all = append(all, b.list...)
	b.list, b.orphans = nil, nil
	for _, set := range sets {
		o := &owner{set: set}
		switch was := old[set.Owner]; {
		case b.closed:
		case set.Static:
			o.wanted = true
		case was != nil:
			o.wanted = was.wanted
		default:
			o.wanted = b.early[set.Owner]
		}
		delete(b.early, set.Owner)
		b.owners[set.Owner], b.order = o, append(b.order, o)
		for _, w := range set.Wants {
			e := b.entry(w.Object)
			if len(e.users) == 0 {
				b.list = append(b.list, e)
			}
			e.users = append(e.users, user{o, w})
			e.retired = false
		}
	}
	for _, e := range all {
		if len(e.users) > 0 {
			continue
		}
		if !e.remains() {
			b.forget(e)
			continue
		}
		e.retired = before[e]
		b.orphans = append(b.orphans, e)
	}
	b.changed, b.leaving = true, true
}

func (b *Book) entry(o Object) *entry {
	k := o.key()
	e := b.entries[k]
	if e == nil {
		e = &entry{Object: o}
		b.entries[k] = e
	}
	return e
}

func (b *Book) forget(e *entry) {
	delete(b.entries, e.key())
	b.changed = b.changed || e.recorded
}

// Want notes whether an owner's objects shall be there. One that is not configured yet
// is remembered.
func (b *Book) Want(name string, wanted bool) {
	wanted = wanted && !b.closed
	o := b.owners[name]
	switch {
	case o == nil:
		b.early[name] = wanted
	case !o.set.Static && o.wanted != wanted:
		o.wanted = wanted
		b.leaving = b.leaving || !wanted
		for _, e := range b.list {
			if wanted && e.has(o) {
				e.begin()
				b.changed = b.changed || !e.recorded
			}
		}
	}
}

// begin starts a new term of wanting: past fights and errors are forgiven.
func (e *entry) begin() {
	e.losses, e.fought, e.dropped = nil, false, false
	if !e.present {
		e.was, e.alien, e.backoff, e.retryAt, e.err, e.waits = false, false, 0, time.Time{}, nil, ""
	}
}

// Release makes everything unwanted for good.
func (b *Book) Release() {
	b.closed, b.leaving = true, true
	clear(b.early)
	for _, o := range b.order {
		o.wanted = false
	}
}

func (e *entry) has(o *owner) bool {
	return slices.ContainsFunc(e.users, func(u user) bool { return u.owner == o })
}

// remains reports whether the kernel has something of it that is to be removed by us.
func (e *entry) remains() bool { return e.present && e.ours || len(e.parts) > 0 }

// active is the first use by an owner that wants its objects, or nil.
func (e *entry) active() *user {
	for i := range e.users {
		if e.users[i].owner.wanted {
			return &e.users[i]
		}
	}
	return nil
}

func (b *Book) tell(kind EventKind, e *entry, err error) {
	for _, u := range e.users {
		if u.owner.wanted {
			b.events = append(b.events, Event{kind, u.owner.set.Owner, u.owner.set.Static, e.Object, err})
		}
	}
}

// Events returns what happened since the last call.
func (b *Book) Events() []Event {
	events := b.events
	b.events = nil
	return events
}

// Queries returns what a reading must show to be of use now.
func (b *Book) Queries(env Env) []Query {
	var all []Query
	note := func(e *entry) {
		q, ok := e.query(env)
		if !ok || e.Rule != nil || slices.ContainsFunc(all, func(o Query) bool { return o.covers(q) }) {
			return
		}
		all = append(slices.DeleteFunc(all, func(o Query) bool { return q.covers(o) }), q)
	}
	for _, e := range b.list {
		if e.active() != nil || e.remains() {
			note(e)
		}
	}
	for _, e := range b.orphans {
		note(e)
	}
	return all
}

// Busy reports whether readings of routes and rules are of use at all.
func (b *Book) Busy() bool {
	return len(b.orphans) > 0 || slices.ContainsFunc(b.list, func(e *entry) bool { return e.active() != nil || e.remains() })
}

// query is what shows the entry; false while its table is not known.
func (e *entry) query(env Env) (Query, bool) {
	if e.Rule != nil {
		return Query{}, true
	}
	r, ok := settle(e.Route, env)
	q := Query{IPv6: r.IPv6(), Table: r.Table, Protocol: r.Protocol}
	if e.alien || r.IPv6() { // a next hop of ours may be in a route of others
		q.Protocol = 0
	}
	return q, ok
}

// settle returns the route with its table known.
func settle(r *Route, env Env) (Route, bool) {
	s := *r
	if r.VRF != "" {
		l, _ := env.Link(r.VRF)
		s.Table = l.VRFTable
	}
	return s, s.Table != 0
}

// settled is the object with its table known.
func (e *entry) settled(env Env) Object {
	if e.Rule != nil {
		return e.Object
	}
	r, _ := settle(e.Route, env)
	return Object{Route: &r}
}
