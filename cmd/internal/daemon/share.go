package daemon

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"vipd/healthcheck"
	"vipd/healthcheck/run"
)

// variant is what a check is, whoever has it: what is asked of which server, and its timing. Servers of several services
// with the same variant share one check.
type variant struct {
	key             string
	interval, limit time.Duration
	pause, quick    time.Duration
	limits          healthcheck.Limits
}

func variantOf(j *run.Job) variant {
	return variant{j.Key, j.Interval, j.Timeout, j.DelayBeforeRetry, j.DelayIfRefused, j.Limits}
}

// names are the checks that run: under its name a check's verdict, counters and schedule outlive a reload.
type names map[string]variant

// request is one server's wish for a check.
type request struct {
	variant
	inherit healthcheck.Verdict // of the job
	before  []string            // names of the checks that the server had in this service
	server  healthcheck.Verdict // of the server before; Unknown also for a new one
	file    string              // that the check looks at
	name    *string             // where the name goes
}

// shared names the checks of all services. One that is as before goes on under its name wherever it now stands; of what
// is left, one whose timing alone has changed goes on under that of its own server; only then new ones get names, which
// no other had before.
type shared struct {
	statuses map[string]run.Status // of the checks that run
	running  names
	by       map[variant][]string // names under which a variant runs, those with results first
	asked    []request
	jobs     []run.Job // that were asked for
	now      names
}

// newShared names up to n checks while others run. Those that will be asked for ask something that is touched.
func newShared(running names, touched map[string]bool, statuses map[string]run.Status, n int) *shared {
	s := &shared{
		statuses: statuses, running: running, by: map[variant][]string{},
		asked: make([]request, 0, n), jobs: make([]run.Job, 0, n), now: make(names, n),
	}
	for name, v := range running {
		if touched[v.key] {
			s.by[v] = append(s.by[v], name)
		}
	}
	for _, list := range s.by {
		slices.SortFunc(list, func(a, b string) int {
			return cmp.Or(s.rank(a)-s.rank(b), len(a)-len(b), cmp.Compare(a, b))
		})
	}
	return s
}

// rank is 0 for a check with results of its own.
func (s *shared) rank(name string) int {
	if st := s.statuses[name]; st.Known && !st.Inherited {
		return 0
	}
	return 1
}

func (s *shared) verdict(name string) healthcheck.Verdict {
	switch st := s.statuses[name]; {
	case !st.Known:
		return healthcheck.Unknown
	case st.Healthy:
		return healthcheck.Up
	}
	return healthcheck.Down
}

// add takes a request for a job. It has its name after all.
func (s *shared) add(j run.Job, r request) {
	r.variant, r.inherit = variantOf(&j), j.Inherit
	s.asked, s.jobs = append(s.asked, r), append(s.jobs, j)
}

// all names the checks that were asked for, and returns them. Those that several servers share say so in the log.
func (s *shared) all() []run.Job {
	fresh := make(map[beginning]string, len(s.asked))
	for _, find := range []func(*request) string{s.same, s.changed, func(r *request) string { return s.begin(r, fresh) }} {
		for i := range s.asked {
			r := &s.asked[i]
			if *r.name != "" {
				continue
			}
			if *r.name = find(r); *r.name != "" {
				s.now[*r.name] = r.variant
			}
		}
	}
	jobs := s.jobs[:0] // each is at its place or before it
	at, users := make(map[string]int, len(s.asked)), make([]int, 0, len(s.asked))
	for n := range s.asked {
		name, job := *s.asked[n].name, s.jobs[n]
		i, known := at[name]
		if !known {
			i = len(jobs)
			at[name] = i
			job.Key = name
			jobs, users = append(jobs, job), append(users, 0)
		}
		users[i]++
		jobs[i].LogFailures = jobs[i].LogFailures || job.LogFailures
	}
	for i, n := range users {
		if n > 1 {
			jobs[i].Fields = append(jobs[i].Fields, zap.Int("shared_by", n))
		}
	}
	return jobs
}

// files returns the names of the checks that look at each file.
func (s *shared) files() map[string][]string {
	files := map[string][]string{}
	for i := range s.asked {
		if r := &s.asked[i]; r.file != "" {
			files[r.file] = append(files[r.file], *r.name)
		}
	}
	return files
}

// same returns the name of a check that is as before, "" if there is none: the server's own, or an equal one that knows
// as much, or, for a server that has none, another's.
func (s *shared) same(r *request) string {
	list := s.by[r.variant]
	for _, own := range list {
		if !slices.Contains(r.before, own) {
			continue
		}
		return list[slices.IndexFunc(list, func(n string) bool { return s.verdict(n) == s.verdict(own) })]
	}
	return s.others(r)
}

// others returns the name of a check of others that is just the one asked for, "" if there is none. Where the server has
// a verdict it keeps that, until the check has a result after the reload. What another's check only starts from, alpha
// for one, says nothing of this one.
func (s *shared) others(r *request) string {
	for _, n := range s.by[r.variant] {
		v := s.verdict(n)
		if s.rank(n) == 0 && (r.server == healthcheck.Unknown || r.server == v) || v == r.inherit {
			return n
		}
	}
	return ""
}

// changed returns the name of a check of the same server that asks the same and whose timing nobody has any more.
func (s *shared) changed(r *request) string {
	for _, n := range r.before {
		if v, taken := s.now[n]; s.running[n].key != r.key || taken && v != r.variant {
			continue
		}
		if !slices.Contains(s.by[r.variant], n) {
			s.by[r.variant] = append(s.by[r.variant], n)
		}
		return n
	}
	return ""
}

// beginning is a new check, and what it begins with.
type beginning struct {
	variant
	inherit healthcheck.Verdict
}

// begin returns the name of a new check, or of one that just came to be what it is.
func (s *shared) begin(r *request, fresh map[beginning]string) string {
	if n := s.others(r); n != "" {
		return n
	}
	begun := beginning{r.variant, r.inherit}
	if n := fresh[begun]; n != "" {
		return n
	}
	name := r.key
	for n := 2; s.used(name); n++ {
		name = r.key + " #" + strconv.Itoa(n)
	}
	fresh[begun] = name
	return name
}

func (s *shared) used(name string) bool {
	_, ran := s.running[name]
	_, taken := s.now[name]
	return ran || taken
}
