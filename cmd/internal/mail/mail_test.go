package mail

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"
)

var config = Config{To: []string{"a@x", "b@x"}, From: "v@x", Server: "relay", Port: 25, Helo: "h", Timeout: 30 * time.Second}

// bubble runs a test with a queue to a relay, in a bubble with its own time.
func bubble(t *testing.T, f func(t *testing.T, q *Queue, r *relay, logged *observer.ObservedLogs)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		r := &relay{}
		q := New(zap.New(core))
		q.dial = r
		q.Configure(config)
		f(t, q, r, logged)
		_ = q.Close()
		r.conns.Wait()
	})
}

// after lets time pass until everybody waits.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func send(q *Queue, subjects ...string) {
	for _, s := range subjects {
		q.Send(Message{Subject: s, Body: "=> body <=\n"})
	}
}

// Mails arrive in order, with the addresses of the configuration.
func TestMailsArriveInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
		send(q, "1", "2", "3")
		after(0)
		got := r.mails()
		equal(t, "subjects", subjects(got), []string{"1", "2", "3"})
		equal(t, "sender", got[0].from, "<v@x>")
		equal(t, "recipients", got[0].to, []string{"<a@x>", "<b@x>"})
		if !strings.HasSuffix(got[0].text, "\r\n\r\n=> body <=\r\n") {
			t.Errorf("the text is not readable as it is:\n%s", got[0].text)
		}
		equal(t, "status", q.Status(), Status{Sent: 3})
	})
}

// While the relay is dead nobody waits; when it is back, all mails come, in order,
// with the time of their event.
func TestDeadRelayComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, logged *observer.ObservedLogs) {
		r.down = true
		start := time.Now()
		send(q, "1")
		after(10 * time.Second)
		send(q, "2")
		equal(t, "time that passed", time.Since(start), 10*time.Second)
		after(10 * time.Minute)
		st := q.Status()
		if st.Waiting != 2 || st.Sent != 0 || !strings.Contains(st.Problem, "connection refused") {
			t.Errorf("status of a dead relay: %+v", st)
		}
		if st.Failed < 10 || st.Failed > 20 {
			t.Errorf("%d attempts in 10 minutes", st.Failed)
		}
		equal(t, "lines about it", logged.Len(), 1)
		r.set(func() { r.down, r.dials = false, 0 })
		send(q, "3") // waits its turn
		after(lastWait)
		got := r.mails()
		equal(t, "subjects", subjects(got), []string{"1", "2", "3"})
		equal(t, "connections", r.dials, 1)
		if date := "Date: " + start.Format(time.RFC1123Z); !strings.Contains(got[0].text, date) {
			t.Errorf("no %q in\n%s", date, got[0].text)
		}
		equal(t, "problem", q.Status().Problem, "")
		equal(t, "last line", logged.All()[logged.Len()-1].Message, "mail is sent again")
	})
}

// A mail is given up an hour after its event, and not before.
func TestOldMailIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
		r.down = true
		send(q, "1")
		after(KeepFor - lastWait)
		equal(t, "waiting", q.Status().Waiting, 1)
		after(3 * lastWait)
		st := q.Status()
		equal(t, "waiting, dropped", []any{st.Waiting, st.Dropped, st.Problem}, []any{0, 1, ""})
		r.set(func() { r.down = false })
		send(q, "2")
		after(lastWait)
		equal(t, "subjects", subjects(r.mails()), []string{"2"})
	})
}

// A full queue loses the oldest, counts them and says so now and then.
func TestFullQueue(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, logged *observer.ObservedLogs) {
		r.down = true
		for i := range QueueMax + 250 {
			send(q, fmt.Sprint(i))
		}
		after(0)
		st := q.Status()
		equal(t, "waiting, dropped", []any{st.Waiting, st.Dropped}, []any{QueueMax, 250})
		if n := logged.FilterMessageSnippet("mail dropped").Len(); n != 3 {
			t.Errorf("%d lines for 250 dropped mails", n)
		}
		r.set(func() { r.down = false })
		after(time.Minute)
		got := subjects(r.mails())
		equal(t, "first, last, number", []any{got[0], got[len(got)-1], len(got)}, []any{"250", fmt.Sprint(QueueMax + 249), QueueMax})
		equal(t, "connections at once", r.most, 1)
	})
}

// A relay that takes connections and says nothing, or dribbles, is left after the
// timeout; the mails stay.
func TestTarpit(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
		r.hangs = true
		send(q, "1")
		after(29 * time.Second)
		r.set(func() { equal(t, "connections after 29 s", []int{r.dials, r.open}, []int{1, 1}) })
		after(time.Minute + time.Second)
		st := q.Status()
		if st.Failed != 2 || !strings.Contains(st.Problem, "greeting") {
			t.Errorf("after 90 s: %+v", st)
		}
		r.set(func() { r.hangs = false })
		after(2 * time.Minute)
		equal(t, "subjects", subjects(r.mails()), []string{"1"})
	})
}

// A relay whose greeting never ends fills no memory.
func TestEndlessGreeting(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
		r.answers = func(line string) string {
			if line == "" {
				return strings.Repeat("220-welcome\r\n", 2*replyMax/10)
			}
			return ""
		}
		send(q, "1")
		after(500 * time.Millisecond)
		if st := q.Status(); st.Failed != 1 || !strings.Contains(st.Problem, "talks too much") {
			t.Errorf("%+v", st)
		}
	})
}

// One who is refused for good does not keep the others from their mail, and is
// counted.
func TestOneRecipientRefused(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, logged *observer.ObservedLogs) {
		r.answers = func(line string) string {
			if line == "RCPT TO:<a@x>" {
				return "550 no such user"
			}
			return ""
		}
		send(q, "1", "2")
		after(0)
		got := r.mails()
		equal(t, "subjects", subjects(got), []string{"1", "2"})
		equal(t, "recipients", got[0].to, []string{"<b@x>"})
		equal(t, "status", q.Status(), Status{Sent: 2, Rejected: 2})
		if line := logged.All()[0]; !strings.Contains(fmt.Sprint(line.ContextMap()["err"]), "sending mail to a@x: 550") {
			t.Errorf("logged %v", line)
		}
	})
}

// What the relay refuses for good, for everybody, is dropped, and the next mail
// is sent.
func TestMailRefused(t *testing.T) {
	for _, command := range []string{"MAIL", "RCPT", "DATA", "."} {
		t.Run(command, func(t *testing.T) {
			bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
				r.answers = func(line string) string {
					if strings.HasPrefix(line, command) {
						return "554 no"
					}
					return ""
				}
				send(q, "1")
				after(time.Second)
				st := q.Status()
				if st.Waiting != 0 || st.Rejected == 0 || st.Sent != 0 || st.Failed != 0 {
					t.Errorf("%+v", st)
				}
				r.set(func() { r.answers = nil })
				send(q, "2")
				after(0)
				equal(t, "subjects", subjects(r.mails()), []string{"2"})
			})
		})
	}
}

// What the relay does not take for now (greylisting) is tried again, only for
// those who have not got it.
func TestGreylisting(t *testing.T) {
	for _, command := range []string{"MAIL", "RCPT TO:<b@x>", "DATA", "."} {
		t.Run(command, func(t *testing.T) {
			bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
				r.answers = func(line string) string {
					if strings.HasPrefix(line, command) {
						return "451 later"
					}
					return ""
				}
				send(q, "1")
				after(5 * time.Minute)
				equal(t, "waiting", q.Status().Waiting, 1)
				if n := q.Status().Failed; n < 5 || n > 15 {
					t.Errorf("%d attempts in 5 minutes", n)
				}
				r.set(func() { r.answers = nil })
				after(lastWait)
				to := map[string]int{}
				for _, m := range r.mails() {
					for _, who := range m.to {
						to[who]++
					}
				}
				equal(t, "mails by recipient", to, map[string]int{"<a@x>": 1, "<b@x>": 1})
				equal(t, "sent, waiting", []any{q.Status().Sent, q.Status().Waiting}, []any{1, 0})
			})
		})
	}
}

// At the stop the last mails are sent; a relay that is dead delays it by nothing, one
// that hangs by CloseWait.
func TestClose(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(r *relay)
		takes time.Duration
		sent  int
	}{
		{"good", func(*relay) {}, 0, 2},
		{"dead", func(r *relay) { r.down = true }, 0, 0},
		{"hangs", func(r *relay) { r.hangs = true }, CloseWait, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
				c.set(r)
				send(q, "1", "2")
				start := time.Now()
				err := q.Close()
				equal(t, "time", time.Since(start), c.takes)
				equal(t, "sent", len(r.mails()), c.sent)
				if cut := 2 - c.sent; (err != nil) != (cut > 0) || err != nil && err.Error() != "stopping: 2 mails were not sent" {
					t.Errorf("Close: %v", err)
				}
				send(q, "3")
				equal(t, "waiting after Close", q.Status().Waiting, 0)
			})
		})
	}
}

// A reload to another relay sends what waits there at once; one without mail drops it.
func TestConfigure(t *testing.T) {
	bubble(t, func(t *testing.T, q *Queue, r *relay, _ *observer.ObservedLogs) {
		r.down = true
		send(q, "1")
		after(5 * time.Minute)
		r.set(func() { r.down = false })
		c := config
		c.To = []string{"c@x"}
		q.Configure(c)
		after(0)
		equal(t, "recipients", r.mails()[0].to, []string{"<a@x>", "<b@x>"})
		r.set(func() { r.down = true })
		send(q, "2")
		q.Configure(Config{})
		after(0)
		equal(t, "status", q.Status(), Status{Sent: 1, Failed: q.Status().Failed, Dropped: 1})
		send(q, "3")
		equal(t, "waiting without a configuration", q.Status().Waiting, 0)
	})
}

// Whatever a relay says, the queue lives, and serves a good one afterwards.
func TestHostileRelay(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		piece := rapid.SampledFrom([]string{"220", "250", "354", "421", "451", "550", "999", "-1", "25", " ", "-", "ok", "\r\n", "\n", "\x00", "\xff", "SIZE", "SMTPUTF8", "8BITMIME", "AUTH", "STARTTLS", "=", "PIPELINING 1 2 3"})
		answers := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(r, "answer"), "") }), 1, 12).Draw(r, "answers")
		bubble(t, func(t *testing.T, q *Queue, relay *relay, _ *observer.ObservedLogs) {
			n := 0
			relay.answers = func(string) string {
				n++
				return answers[n%len(answers)]
			}
			send(q, "1", "2")
			after(10 * time.Minute)
			if st := q.Status(); strings.Contains(st.Problem, "panic") {
				t.Errorf("%q: %s", answers, st.Problem)
			}
			relay.set(func() { relay.answers, relay.got = nil, nil })
			send(q, "3")
			after(2 * lastWait)
			if got := subjects(relay.mails()); !slices.Contains(got, "3") {
				t.Errorf("%q: afterwards %q came", answers, got)
			}
		})
	})
}
