package interop

import (
	"fmt"
	"slices"
	"time"

	"vipd/test/lab"
)

// A cell is one event as one row saw it.
type cell struct {
	outage time.Duration // the longest time without a reply to the client
	twice  time.Duration // two directors had the address, one of them not by the event's nature
	late   time.Duration // by how much the next advert came later than the protocol says
	faults []fault
}

// A fault is what a cell should not show.
type fault struct {
	kind string // faults of one kind are compared with keepalived alone
	text string
}

func (c *cell) fault(kind, format string, args ...any) {
	c.faults = append(c.faults, fault{kind, fmt.Sprintf(format, args...)})
}

// allowed is what a cell may show, with room for the machine.
type allowed struct{ outage, twice, early, late time.Duration }

// cells are the figures of a row, one for each event.
func (r *record) cells(i int, room time.Duration) []cell {
	var list []cell
	for _, sp := range r.spans {
		list = append(list, r.cell(i, sp, room))
	}
	return list
}

func (r *record) cell(i int, sp span, room time.Duration) cell {
	row := r.site.rows()[i]
	var c cell
	c.outage = r.outage(row, sp)
	c.twice = r.twice(row, sp.after[i], sp)
	lost := sp.after[i].owner != sp.before[i].owner && sp.before[i].owner == sp.at
	ok := r.allowed(i, sp, room)
	if lost {
		due, first, err := r.takeover(i, sp)
		if err != nil {
			c.fault("takeover", "%v", err)
		} else if c.late = first.Sub(due); c.late > ok.late || c.late < -ok.early {
			c.fault("takeover", "the first advert of the new master %s ms from its time", signed(c.late))
		}
	} else if c.late = r.silence(row, sp) - r.site.interval(); c.late > ok.late {
		c.fault("silence", "no advert for %v ms more than the interval", c.late.Milliseconds())
	}
	if c.outage > ok.outage {
		c.fault("outage", "no reply for %d ms", c.outage.Milliseconds())
	}
	if c.twice > ok.twice {
		c.fault("two owners", "two owners for %d ms", c.twice.Milliseconds())
	}
	if sp.late[i] {
		c.fault("owner", "owners at the end %v, want %s", owned(r.held.Between(row.vip(), sp.to, sp.to.Add(time.Nanosecond))), wanted(sp.after[i]))
	}
	return c
}

func owned(list []lab.Ownership) []string { return list[len(list)-1].Owners }

func wanted(v view) string { must, _ := v.owners(); return must }

func (r *record) allowed(i int, sp span, room time.Duration) allowed {
	s := r.site
	room += sp.stalled // when the machine stood still all are late
	a := allowed{room, room, room, room}
	if s.group || sp.what == killMain { // its group goes with the first; a child may say good-bye
		a.early = time.Hour
	}
	if sp.before[i].owner == sp.at {
		switch sp.what {
		case cut, linkDown, killMain, killAll:
			a.outage += s.down(sp.after[i].owner)
		case stop:
			a.outage += s.skew(sp.after[i].owner)
		}
	}
	switch sp.what {
	case heal:
		a.twice += s.interval()
	case restart: // until the daemon has found what the crash left
		a.twice += 500 * time.Millisecond
	}
	return a
}

// outage is the longest time without a reply, 0 when none was lost.
func (r *record) outage(row row, sp span) time.Duration {
	mine := lab.Filter(r.probes, func(p lab.Probe) bool { return p.Target == row.vip() })
	every := r.site.pingEvery()
	sent := lab.Filter(mine, func(p lab.Probe) bool { return p.Sent.After(sp.from.Add(-every)) && p.Sent.Before(sp.to) })
	if len(lab.LostProbes(sent)) == 0 {
		return 0
	}
	last, longest := sp.from, time.Duration(0)
	for _, p := range lab.Answered(mine) {
		if p.Got.Before(sp.from) {
			continue
		}
		if p.Got.After(sp.to) {
			break
		}
		longest, last = max(longest, p.Got.Sub(last)), p.Got
	}
	longest = max(longest, sp.to.Sub(last)) - every
	return max(0, longest)
}

// twice is for how long more than one director had the address, but for those
// that cannot know better: cut off, or dead.
func (r *record) twice(row row, after view, sp span) (sum time.Duration) {
	for _, p := range r.held.Between(row.vip(), sp.from, sp.to) {
		n := 0
		for place := range r.nodes {
			if slices.Contains(p.Owners, directorName(place)) && !after.left[place] {
				n++
			}
		}
		if n > 1 {
			sum += p.To.Sub(p.From)
		}
	}
	return sum
}

// of are a row's adverts as a director sent them.
func (r *record) of(row row, place int) []lab.Advert {
	return lab.Filter(r.adverts[place], func(a lab.Advert) bool { return a.VRID == row.vrid() })
}

// takeover is when the new master's first advert was due, and when it came. The
// members of a group are due together, with the last of them.
func (r *record) takeover(i int, sp span) (due, first time.Time, err error) {
	rows := r.site.rows()
	for k, row := range rows {
		if k != i && (!r.site.group || row.nopreempt != rows[i].nopreempt) {
			continue
		}
		old, next := sp.before[k].owner, sp.after[k].owner
		a, ok := lab.FirstAfter(r.of(row, next), sp.from)
		if !ok || a.At.After(sp.to) {
			return due, first, fmt.Errorf("no advert of the new master")
		}
		if k == i {
			first = a.At
		}
		d, err := r.due(row, sp, old, next, a.At)
		if err != nil {
			return due, first, err
		}
		if d.After(due) {
			due = d
		}
	}
	return due, first, nil
}

// due is one skew time after the resignation of the old master, or one down
// time after its last advert.
func (r *record) due(row row, sp span, old, next int, first time.Time) (time.Time, error) {
	until := first
	if sp.what == cut {
		until = sp.from
	}
	for _, a := range r.of(row, old) {
		if !a.At.Before(sp.from) && a.At.Before(until) && a.Priority == 0 {
			return a.At.Add(r.site.skew(next)), nil
		}
	}
	if sp.what == stop {
		return first, fmt.Errorf("the old master did not resign")
	}
	last, ok := lab.LastBefore(r.of(row, old), until)
	if !ok {
		return first, fmt.Errorf("no advert of the old master")
	}
	return last.At.Add(r.site.down(next)), nil
}

// silence is the longest time between two adverts, of whomever.
func (r *record) silence(row row, sp span) time.Duration {
	var all []lab.Advert
	for place := range r.nodes {
		all = append(all, r.of(row, place)...)
	}
	slices.SortFunc(all, func(a, b lab.Advert) int { return a.At.Compare(b.At) })
	gap, _ := lab.LongestGap(lab.Between(all, sp.from.Add(-r.site.interval()), sp.to))
	return max(gap, r.site.interval())
}

// signed writes milliseconds with their sign.
func signed(d time.Duration) string {
	return fmt.Sprintf("%+d", d.Round(time.Millisecond).Milliseconds())
}

// String is the cell in the table.
func (c cell) String() string {
	const quiet = 10 * time.Millisecond
	text := fmt.Sprintf("%d/%d/%s", c.outage.Milliseconds(), c.twice.Milliseconds(), signed(c.late))
	if c.outage == 0 && c.twice < quiet && c.late.Abs() < quiet {
		text = "·"
	}
	if len(c.faults) > 0 {
		text = "**✗ " + text + "**"
	}
	return text
}
