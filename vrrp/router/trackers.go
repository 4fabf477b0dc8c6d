package router

import (
	"fmt"
	"maps"

	"vipd/vrrp"
)

// trackerKind tells what is tracked by name.
type trackerKind uint8

const (
	trackScript trackerKind = iota
	trackFile
	trackProcess
)

// tracker names something whose result is told from outside.
type tracker struct {
	kind trackerKind
	name string
}

// good and bad are the results of trackers that have only these two.
const (
	bad  = 0
	good = 1
)

// fileFault is the product of a file's number and its weight from which on an
// instance cannot take part.
const fileFault = -254

// TrackResult tells the state of a script: it is debounced by the caller. One of a
// script that no instance tracks is not kept.
func (r *Router) TrackResult(script string, ok bool) {
	r.result(tracker{trackScript, script}, verdict(ok))
}

// TrackProcess tells whether as many processes run as are wanted, like TrackResult.
func (r *Router) TrackProcess(name string, ok bool) {
	r.result(tracker{trackProcess, name}, verdict(ok))
}

// TrackFile tells the number that a file holds, like TrackResult.
func (r *Router) TrackFile(name string, value int) { r.result(tracker{trackFile, name}, value) }

func verdict(ok bool) int {
	if ok {
		return good
	}
	return bad
}

// result takes the result of a tracker that an instance has.
func (r *Router) result(t tracker, value int) {
	r.post(func() {
		if last, known := r.results[t]; known && last == value || !r.tracked()[t] {
			return
		}
		r.results[t] = value
		r.refresh()
	})
}

// tracked returns what instances track by name.
func (r *Router) tracked() map[tracker]bool {
	names := map[tracker]bool{}
	for _, in := range r.list {
		for kind, list := range [...][]Track{trackScript: in.cfg.TrackScripts, trackFile: in.cfg.TrackFiles, trackProcess: in.cfg.TrackProcesses} {
			for _, t := range list {
				names[tracker{trackerKind(kind), t.Name}] = true
			}
		}
	}
	return names
}

// forgetResults drops the results of what is tracked no more: a later tracker of that
// name starts without one.
func (r *Router) forgetResults() {
	now := r.tracked()
	maps.DeleteFunc(r.results, func(t tracker, _ int) bool { return !now[t] })
}

// track adds what the trackers of an instance say to env.
func (r *Router) track(in *instance, env *vrrp.Env) {
	in.weights = nil
	weigh := func(t *Track, ok bool, reason string) {
		if w := t.apply(env, ok, reason); w != 0 {
			in.weights = append(in.weights, fmt.Sprintf("%s (%+d)", reason, w))
		}
	}
	for i := range in.cfg.TrackInterfaces {
		t := &in.cfg.TrackInterfaces[i]
		reason := r.linkFault(t.Name)
		if reason == "" {
			reason = t.Name + " is up"
		}
		weigh(t, r.linkFault(t.Name) == "", reason)
	}
	// result finds the result of a tracker; without one that would decide between
	// FAULT and not, the instance waits.
	result := func(kind trackerKind, t *Track, first string) (value int, known bool) {
		value, known = r.results[tracker{kind, t.Name}]
		if !known && t.Weight == 0 && env.Pending == "" {
			env.Pending = first + " " + t.Name
		}
		return value, known
	}
	for i := range in.cfg.TrackScripts {
		t := &in.cfg.TrackScripts[i]
		if value, known := result(trackScript, t, "the first result of script"); known {
			weigh(t, value == good, fmt.Sprintf("script %s %s", t.Name, map[bool]string{true: "succeeds", false: "failed"}[value == good]))
		}
	}
	for i := range in.cfg.TrackProcesses {
		t := &in.cfg.TrackProcesses[i]
		if value, known := result(trackProcess, t, "the first count of process"); known {
			weigh(t, value == good, fmt.Sprintf("process %s %s", t.Name, map[bool]string{true: "runs", false: "does not run as it should"}[value == good]))
		}
	}
	for i := range in.cfg.TrackFiles {
		t := &in.cfg.TrackFiles[i]
		value, known := r.results[tracker{trackFile, t.Name}]
		if !known && env.Pending == "" {
			env.Pending = "the first value of file " + t.Name // whatever its weight: it may mean FAULT
		}
		if known {
			r.trackFile(in, env, t, value)
		}
	}
}

// trackFile adds what a file says: its number times the weight, FAULT when that is
// fileFault or less. With weight 0 any number but 0 is a fault (reverse: 0 is).
func (r *Router) trackFile(in *instance, env *vrrp.Env, t *Track, value int) {
	if t.Weight == 0 {
		t.apply(env, value == 0, fmt.Sprintf("file %s holds %d", t.Name, value))
		return
	}
	const limit = vrrp.OwnerPriority // more moves no priority further
	product := int64(value) * int64(t.Weight)
	if t.Reverse {
		product = -product
	}
	if product <= fileFault {
		env.Faults = append(env.Faults, fmt.Sprintf("file %s holds %d, with its weight %d", t.Name, value, product))
		return
	}
	if w := int(min(product, limit)); w != 0 {
		env.Weight += w
		in.weights = append(in.weights, fmt.Sprintf("file %s holds %d (%+d)", t.Name, value, w))
	}
}

// apply adds what a tracker says to env. With weight 0 a bad state is a fault
// (reverse: a good one). A positive weight counts while good, a negative one while
// bad; reverse turns its sign. It returns the weight that counts.
func (t *Track) apply(env *vrrp.Env, ok bool, reason string) int {
	weight := t.Weight
	if t.Reverse {
		weight = -weight
	}
	switch {
	case t.Weight == 0 && ok == t.Reverse:
		env.Faults = append(env.Faults, reason)
	case t.Weight > 0 && ok, t.Weight < 0 && !ok:
		env.Weight += weight
		return weight
	}
	return 0
}
