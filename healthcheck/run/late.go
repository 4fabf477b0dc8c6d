package run

import (
	"fmt"
	"time"
)

const (
	// lateShare is the part of its interval by which a check may begin late without
	// being counted.
	lateShare = 10
	// lateInRow is how many attempts of a check, one after the other, begin later than
	// a whole interval before that is an alarm: one is what a machine that stood still
	// leaves behind.
	lateInRow = 3
)

// punctuality is how late attempts have begun. The scheduler's mutex guards it.
type punctuality struct {
	worst   time.Duration
	delayed uint64 // by more than a tenth of the interval
	behind  int    // checks that are late again and again
	told    bool   // that there are such
}

// begun counts an attempt that began so late.
func (p *punctuality) begun(e *entry, late time.Duration) {
	p.worst = max(p.worst, late)
	if late > e.job.Interval/lateShare {
		p.delayed++
	}
	if late <= e.job.Interval {
		p.forget(e)
		return
	}
	if e.late++; e.late == lateInRow {
		p.behind++
	}
}

// forget ends the row of a check that was on time, or is not wanted any more.
func (p *punctuality) forget(e *entry) {
	if e.late >= lateInRow {
		p.behind--
	}
	e.late = 0
}

// lateAlarm is not empty while checks begin late again and again. Called with mu held.
func (s *Scheduler) lateAlarm() string {
	if s.late.behind == 0 {
		return ""
	}
	why := "this director has too much to do"
	if s.inFlight[fast]+s.inFlight[slow] >= s.opts.Concurrency || s.inFlight[slow] >= max(1, s.opts.Concurrency/2) {
		why = fmt.Sprintf("servers that answer late hold the places there are (%d in all; raise LimitNOFILE of the vipd service)", s.opts.Concurrency)
	}
	return fmt.Sprintf("health checks begin late, %d of %d by more than their delay_loop %d times in a row (worst %v since the start): %s",
		s.late.behind, len(s.jobs), lateInRow, s.late.worst.Round(time.Millisecond), why)
}

// tellLate logs that checks begin late again and again, and when that ends; it reports
// whether there was anything to tell. Called by the sweep, without mu.
func (s *Scheduler) tellLate() bool {
	s.mu.Lock()
	alarm := s.lateAlarm()
	news := (alarm != "") != s.late.told
	s.late.told = alarm != ""
	s.mu.Unlock()
	switch {
	case !news:
	case alarm != "":
		s.log.Error(alarm)
	default:
		s.log.Info("health checks begin in time again")
	}
	return news
}
