package run

import (
	"time"

	"go.uber.org/zap"

	"vipd/healthcheck"
)

// Job is one check with its timing.
type Job struct {
	// Key is the identity of the check. It holds everything that decides the
	// result (kind, target, what is asked, what is wanted) and nothing of the
	// timing: a key that stays over a Configure keeps verdict, counters and
	// schedule, a changed one is a new check. Jobs with the same key in one
	// Configure are one check that is shared; the first one's timing counts.
	Key     string
	Checker healthcheck.Checker // a known key keeps its own if that is the same (healthcheck.Keeper)

	Interval time.Duration // delay_loop, from the start of one check to the start of the next; > 0
	Timeout  time.Duration // deadline of one whole attempt; > 0

	healthcheck.Limits               // retry, fall and rise
	DelayBeforeRetry   time.Duration // from the end of a failed attempt to the retry
	DelayIfRefused     time.Duration // the same after one that was refused (Result.Refused)
	Warmup             time.Duration // the first attempt comes at a random time in 0..Warmup

	// Inherit is the verdict shown for a new key until the results of its own
	// decide: that of the server before its check was changed. A known key
	// ignores it. With a verdict to replace, the first attempt comes within
	// min(Warmup, Interval).
	Inherit healthcheck.Verdict

	// LogFailures has every failed attempt logged, not only the one that brings DOWN.
	LogFailures bool

	// Fields go with every log line about this check (service, dest, check);
	// without any it is check=Key.
	Fields []zap.Field
}

// Status is what is known about one check.
type Status struct {
	Healthy   bool // verdict is up
	Known     bool // there is a verdict (own or inherited)
	Inherited bool // the verdict is the inherited one
	// LastRun is when the last attempt ended; zero when none did.
	LastRun time.Time
	Latency time.Duration // of the last attempt
	Detail  string        // what the last attempt found, in one line
	// Age is the time since LastRun, or since the check was configured.
	Age time.Duration
	// Weighting is what the last attempt that passed did to the server's weight.
	Weighting healthcheck.Weighting

	Runs     uint64 // attempts ended
	Failures uint64 // of these, failed ones (local faults not counted)
	// Progress says how far the last results are on the way to another verdict,
	// where rise or fall wants several ("passed 1 of 3 times in a row"); else "".
	Progress string
	// Alarm is not empty when the check itself, not the server, is in trouble:
	// local resources, an attempt beyond its deadline, no result for more than
	// 3 × (Interval + Timeout), a panic.
	Alarm string
}
