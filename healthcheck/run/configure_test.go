package run

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestConfigureRefuses(t *testing.T) {
	s := New(Options{})
	configure(t, s, job("kept", good()))
	err := s.Configure([]Job{{Key: "a", Interval: 1, Timeout: 1}, {Key: "b", Checker: good(), Timeout: 1}, {Key: "c", Checker: good(), Interval: 1}}, nil)
	if err == nil || strings.Count(err.Error(), "configuring check") != 3 {
		t.Errorf("got %v, want all three errors", err)
	}
	if all := s.Snapshot(); len(all) != 1 {
		t.Errorf("a refused Configure changed the jobs: %v", all)
	}
}

// TestRemovalCancels: a removed check is cancelled, not waited for to its deadline.
func TestRemovalCancels(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	inBubble(t, Options{Log: zap.New(core)}, func(t *testing.T, s *Scheduler) {
		f := hangs()
		j := job("x", f)
		j.Timeout = time.Hour
		configure(t, s, j)
		pass(time.Minute)
		begin := time.Now()
		configure(t, s)
		if took := time.Since(begin); took != 0 {
			t.Errorf("took %v", took)
		}
		if st := s.Stats(); st.InFlight != 0 || st.Jobs != 0 {
			t.Errorf("left behind: %+v", st)
		}
		if logs.Len() != 0 {
			t.Errorf("the cancelled attempt was taken for a failure: %v", logs.All())
		}
	})
}

// TestO41SharedCheck: jobs with one key are one check.
func TestO41SharedCheck(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		var jobs []Job
		for range 100 {
			jobs = append(jobs, job("shared", f))
		}
		configure(t, s, jobs...)
		pass(9500 * time.Millisecond)
		if n := len(f.times()); n != 10 {
			t.Errorf("%d attempts in 9.5 s, want 10", n)
		}
	})
}

// TestIntervalShortened: a shorter interval does not wait for the longer one.
func TestIntervalShortened(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Scheduler) {
		f := good()
		j := job("x", f)
		j.Interval = time.Hour
		configure(t, s, j)
		pass(time.Minute)
		j.Interval = time.Second
		configure(t, s, j)
		pass(10 * time.Second)
		if n := len(f.times()); n < 10 || n > 12 {
			t.Errorf("%d attempts, want about 11", n)
		}
		if st := s.Snapshot()["x"]; !st.Healthy || st.Runs != uint64(len(f.times())) {
			t.Errorf("the state was lost: %+v", st)
		}
	})
}

// TestRandomWalk: random reloads while checks run, hang and fail. A check
// never overlaps itself, runs after its removal, or is forgotten.
func TestRandomWalk(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, Options{Seed: seed + 1, Concurrency: 8}, func(t *testing.T, s *Scheduler) {
			rng := rand.New(rand.NewPCG(seed, 1))
			fakes := map[string]*fake{}
			removed := map[*fake]int{} // with its number of attempts
			for step := range 40 {
				var jobs []Job
				wanted := map[string]bool{}
				for i := range 20 {
					key := fmt.Sprint(i)
					if rng.IntN(3) == 0 {
						if f := fakes[key]; f != nil {
							removed[f] = 0
						}
						delete(fakes, key)
						continue
					}
					if fakes[key] == nil {
						fakes[key] = []*fake{good(), bad(), hangs()}[rng.IntN(3)]
					}
					wanted[key] = true
					j := job(key, fakes[key])
					j.Retry, j.DelayBeforeRetry = rng.IntN(3), time.Duration(rng.IntN(500))*time.Millisecond
					j.Warmup = time.Duration(rng.IntN(1000)) * time.Millisecond
					j.Interval = time.Duration(1+rng.IntN(2)) * time.Second
					jobs = append(jobs, j)
				}
				configure(t, s, jobs...)
				for f, n := range removed {
					if n == 0 {
						removed[f] = len(f.times())
					}
				}
				pass(time.Duration(rng.IntN(3000)) * time.Millisecond)
				for f, n := range removed {
					if len(f.times()) != n {
						t.Fatalf("seed %d step %d: a check ran after its removal", seed, step)
					}
				}
				all := s.Snapshot()
				if len(all) != len(wanted) {
					t.Fatalf("seed %d step %d: %d jobs, want %d", seed, step, len(all), len(wanted))
				}
				for key, f := range fakes {
					if f.overlapped() {
						t.Fatalf("seed %d step %d: check %s overlapped itself", seed, step, key)
					}
				}
			}
			pass(20 * time.Second)
			for key, st := range s.Snapshot() {
				if !st.Known || st.Healthy != fakes[key].result.OK || st.Age > 6*time.Second {
					t.Errorf("seed %d: check %s: %+v", seed, key, st)
				}
			}
			counts := map[string]int{}
			for key, f := range fakes {
				counts[key] = len(f.times())
			}
			configure(t, s)
			pass(10 * time.Second)
			for key, f := range fakes {
				if len(f.times()) != counts[key] {
					t.Errorf("seed %d: check %s ran after its removal", seed, key)
				}
			}
		})
	}
}
