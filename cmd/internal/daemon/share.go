package daemon

import (
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"vipd/healthcheck"
	"vipd/healthcheck/run"
)

// shared gathers the checks of all services, so that one which several of them
// have, of the same server with the same timing, runs once.
type shared struct {
	running map[string]run.Status // before
	jobs    []run.Job
	at      map[variant]int // index of the job
	taken   map[string]bool // keys under which jobs run
	users   []int           // of each job
}

// variant tells apart what asks the same of the same server and still is another
// check. A reload that changes the timing of a check keeps its key, and so its
// verdict and counters, as long as it is the only one or the first that asks this.
type variant struct {
	key             string
	interval, limit time.Duration
	pause, quick    time.Duration
	limits          healthcheck.Limits
	inherit         healthcheck.Verdict
}

func newShared(running map[string]run.Status) *shared {
	return &shared{running: running, at: map[variant]int{}, taken: map[string]bool{}}
}

// add takes the check of a server and returns the key under which it runs. before are the keys of that server's checks
// so far.
func (s *shared) add(j run.Job, before []string) string {
	v := variant{j.Key, j.Interval, j.Timeout, j.DelayBeforeRetry, j.DelayIfRefused, j.Limits, j.Inherit}
	if known, ok := s.running[j.Key]; ok && known.Known && !known.Inherited {
		v.inherit = healthcheck.Unknown // what it starts from is no longer of interest
	}
	if i, ok := s.at[v]; ok {
		s.users[i]++
		s.jobs[i].LogFailures = s.jobs[i].LogFailures || j.LogFailures
		return s.jobs[i].Key
	}
	j.Key = s.free(j, before)
	s.taken[j.Key] = true
	s.at[v] = len(s.jobs)
	s.jobs = append(s.jobs, j)
	s.users = append(s.users, 1)
	return j.Key
}

// free returns the key under which a job may run: its own, or with a number.
func (s *shared) free(j run.Job, before []string) string {
	plain := j.Key
	if st := s.running[plain]; !st.Known || st.Inherited {
		for _, k := range before { // it goes on
			if !s.taken[k] && (k == plain || strings.HasPrefix(k, plain+" #")) {
				return k
			}
		}
	}
	for n := 2; s.taken[j.Key] || !s.fits(j); n++ {
		j.Key = plain + " #" + strconv.Itoa(n)
	}
	return j.Key
}

// fits reports whether a job may go on as what runs under its key: that has results of its own, or knows as much. What
// another server's check only starts from, alpha for one, says nothing of this one.
func (s *shared) fits(j run.Job) bool {
	st, runs := s.running[j.Key]
	if !runs || st.Known && !st.Inherited {
		return true
	}
	verdict := healthcheck.Unknown
	if st.Known {
		verdict = healthcheck.Down
		if st.Healthy {
			verdict = healthcheck.Up
		}
	}
	return verdict == j.Inherit
}

// all returns the jobs. Those that several servers share say so in the log.
func (s *shared) all() []run.Job {
	for i, n := range s.users {
		if n > 1 {
			s.jobs[i].Fields = append(s.jobs[i].Fields, zap.Int("shared_by", n))
		}
	}
	return s.jobs
}
