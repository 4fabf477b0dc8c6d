package interop

import (
	"slices"
	"time"
)

// An action is something that befalls a director.
type action int

const (
	cut       action = iota // the switch loses its frames; it keeps its carrier
	heal                    // and forwards them again
	linkDown                // the first interface loses its carrier
	linkUp                  // and gets it back
	stop                    // SIGTERM
	start                   // a start after a clean stop
	killMain                // SIGKILL of the process that was started
	killAll                 // SIGKILL of all its processes, none sees another's death
	restart                 // a start after either
	reload                  // one address more that is not advertised
	reloadVIP               // one more that is
)

// An event is one action at the director of a place.
type event struct {
	what action
	at   int
}

// label is the head of the event's column. Directors are A, B, C by priority.
func (e event) label() string {
	words := map[action]string{cut: "cut", heal: "heal", linkDown: "link down", linkUp: "link up", stop: "stop", start: "start",
		killMain: "kill", killAll: "kill all", restart: "restart", reload: "reload", reloadVIP: "reload +VIP"}
	return words[e.what] + " " + string(rune('A'+e.at))
}

// events is the list that a site goes through. After each loss of A the other
// one goes too, so that with nopreempt, as well, A owns what it is to lose next.
func (s site) events() []event {
	const A, B, C = 0, 1, 2
	if s.short && s.version == 2 {
		return []event{{cut, A}, {heal, A}, {stop, A}, {start, A}, {reload, A}, {reload, B}}
	}
	if s.short {
		return []event{{cut, A}, {heal, A}, {stop, A}, {start, A}, {killAll, B}, {restart, B}, {killAll, A}, {restart, A}, {reload, A}, {reload, B}}
	}
	if len(s.order) == 3 {
		return []event{{cut, A}, {heal, A}, {linkDown, A}, {linkUp, A}, {stop, B}, {start, B},
			{stop, A}, {stop, B}, {start, B}, {start, A}, {stop, C}, {start, C},
			{killAll, A}, {killAll, B}, {restart, B}, {restart, A}, {killMain, C}, {restart, C},
			{reload, A}, {reload, B}, {reload, C}, {reloadVIP, C}, {reloadVIP, B}, {reloadVIP, A}}
	}
	return []event{{cut, A}, {heal, A}, {linkDown, A}, {linkUp, A}, {stop, B}, {start, B}, {stop, A}, {start, A},
		{killMain, B}, {restart, B}, {killMain, A}, {restart, A}, {killAll, B}, {restart, B}, {killAll, A}, {restart, A},
		{linkDown, B}, {linkUp, B}, {reload, A}, {reload, B}, {reloadVIP, B}, {reloadVIP, A}}
}

// A view is what is known to be true of a row: by the rules of the protocol,
// not by what the daemons say.
type view struct {
	owner   int
	present []bool // takes part in the election
	left    []bool // is gone, but its kernel still has the addresses
}

func newView(n int) view {
	return view{owner: 0, present: slices.Repeat([]bool{true}, n), left: make([]bool, n)}
}

// after is the view once an event is over.
func (v view) after(e event, nopreempt bool) view {
	next := view{v.owner, slices.Clone(v.present), slices.Clone(v.left)}
	switch e.what {
	case cut, killMain, killAll, linkDown, stop:
		next.present[e.at] = false
		next.left[e.at] = v.owner == e.at && (e.what == cut || e.what == killMain || e.what == killAll)
		if v.owner == e.at {
			next.owner = slices.Index(next.present, true)
		}
	case heal, linkUp, start, restart:
		next.present[e.at], next.left[e.at] = true, false
		if e.at < v.owner && (!nopreempt || e.what == heal) { // two masters: the better stays
			next.owner = e.at
		}
	}
	return next
}

// owners are the directors that have the addresses in a view; may are those that
// may have them as well.
func (v view) owners() (must string, may []string) {
	for i, left := range v.left {
		if left {
			may = append(may, directorName(i))
		}
	}
	return directorName(v.owner), may
}

func directorName(place int) string { return "d" + string(rune('1'+place)) }

// wait is how long an event may take to have its effect, and quiet how long one
// is looked at that has none, or after its effect.
func (s site) wait() time.Duration { return s.down(len(s.order)-1) + s.interval() + 4*time.Second }

func (s site) quiet(e event) time.Duration {
	d := 2*s.interval() + 300*time.Millisecond
	switch e.what {
	case start, restart:
		d += 700 * time.Millisecond
	case reloadVIP: // who does not hear its master any more takes over
		d += s.down(len(s.order) - 1)
	}
	return d
}
