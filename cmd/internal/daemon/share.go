package daemon

import (
	"strconv"
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
	variant map[string]int  // how many there are of a key
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
	return &shared{running: running, at: map[variant]int{}, variant: map[string]int{}}
}

// add takes the check of a server and returns the key under which it runs.
func (s *shared) add(j run.Job) string {
	v := variant{j.Key, j.Interval, j.Timeout, j.DelayBeforeRetry, j.DelayIfRefused, j.Limits, j.Inherit}
	if known, ok := s.running[j.Key]; ok && known.Known && !known.Inherited {
		v.inherit = healthcheck.Unknown // what it starts from is no longer of interest
	}
	if i, ok := s.at[v]; ok {
		s.users[i]++
		s.jobs[i].LogFailures = s.jobs[i].LogFailures || j.LogFailures
		return s.jobs[i].Key
	}
	if s.variant[j.Key]++; s.variant[j.Key] > 1 {
		j.Key += " #" + strconv.Itoa(s.variant[j.Key])
	}
	s.at[v] = len(s.jobs)
	s.jobs = append(s.jobs, j)
	s.users = append(s.users, 1)
	return j.Key
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
