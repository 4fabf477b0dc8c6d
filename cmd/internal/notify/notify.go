// Package notify tells others of events: it runs the commands that an operator
// wants to be run when an instance changes state (notify, notify_master and so
// on), and writes lines to named pipes (notify_fifo and so on).
//
// Each instance has a queue of its own and at most one running command, so
// its commands run one after the other in the order of the events, and a
// command that hangs holds up no other instance, and nothing else at all. It
// is killed with its process group when its time is up.
package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp/track/process"
)

const (
	// DefaultTimeout is the time that a command may take.
	DefaultTimeout = 60 * time.Second
	// QueueMax is how many events of one instance wait; more push out the oldest.
	QueueMax = 1000
	// CloseWait is how long Close lets the last commands run.
	CloseWait = time.Second
)

// Event is one change of state.
type Event struct {
	Kind     string // "INSTANCE" or "GROUP"; of Run also "VS"
	Name     string
	State    string // "MASTER", "BACKUP", "FAULT", Stop, Deleted …
	Priority int    // effective priority; 0 for a group
}

// Command is a program to run.
type Command struct {
	Argv    []string      // empty: none
	User    *process.User // who runs it; nil: the user of this process
	UserErr string        // why User could not be found: it is not run; "": it was
	Secure  bool          // do not run what others than root and the user can change
	Env     []string      // more of its environment, "NAME=value"
}

// line is the event in the form of keepalived's FIFOs.
func (e Event) line() string {
	return fmt.Sprintf("%s \"%s\" %s %d", e.Kind, e.Name, e.State, e.Priority)
}

// whose is the field of the log that names what the event is about.
func (e Event) whose() zap.Field {
	if e.Kind == Service {
		return zap.String("service", e.Name)
	}
	return zap.String("instance", e.Name)
}

// Service is the kind of events of a virtual server and its real servers.
const Service = "VS"

// Commands are the commands of one instance.
type Commands struct {
	Any      Command // after each of the others but LowerPri
	Master   Command
	Backup   Command
	Fault    Command
	Stop     Command
	Deleted  Command
	LowerPri Command
}

// States of events beside those of an instance, in keepalived's words.
const (
	Stop           = "STOP"
	Deleted        = "DELETED"
	LowerPri       = "MASTER_RX_LOWER_PRI"
	MasterPriority = "MASTER_PRIORITY" // for FIFOs alone
	BackupPriority = "BACKUP_PRIORITY" // for FIFOs alone
)

// commands lists what an event runs, in order: the specific command as
// configured, then the general one with the event's words appended.
func (c Commands) commands(e Event) []Command {
	var out []Command
	specific, general := Command{}, true
	switch e.State {
	case "MASTER":
		specific = c.Master
	case "BACKUP":
		specific = c.Backup
	case "FAULT":
		specific = c.Fault
	case Stop:
		specific = c.Stop
	case Deleted:
		specific = c.Deleted
	case LowerPri:
		specific, general = c.LowerPri, false
	default:
		return nil
	}
	if len(specific.Argv) > 0 {
		out = append(out, specific)
	}
	if general && len(c.Any.Argv) > 0 {
		general := c.Any
		general.Argv = append(slices.Clone(general.Argv), e.Kind, e.Name, e.State, strconv.Itoa(e.Priority))
		out = append(out, general)
	}
	return out
}

// Lines are the command lines that an event runs, in order.
func (c Commands) Lines(e Event) []string {
	var out []string
	for _, cmd := range c.commands(e) {
		out = append(out, strings.Join(cmd.Argv, " "))
	}
	return out
}

// Status tells about the commands of one instance.
type Status struct {
	Kind, Name string
	Queued     int    // events that wait
	Running    string // command line of the moment; "": none
	Done       uint64 // commands that ended with status 0
	Failed     uint64 // others, timeouts included
	Dropped    uint64 // events pushed out of a full queue or cut off by the stop
	LastExit   string // how the last one ended; "": none yet
}

// key names a queue.
type key struct{ kind, name string }

// queue is what the runner keeps of one instance, guarded by Runner.mu.
type queue struct {
	Status
	events []queued
	busy   bool // its goroutine runs
}

// queued is an event with the commands that were configured when it happened.
type queued struct {
	Event
	commands []Command
}

// Runner runs notification commands. All methods may be called from any goroutine.
type Runner struct {
	timeout time.Duration
	fifos   *FIFOs
	log     *zap.Logger
	ctx     context.Context // ends when running commands must be killed
	kill    context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex // guards all following fields
	commands map[key]Commands
	queues   map[key]*queue
	closed   bool
}

// New makes a runner whose commands may take timeout; 0 is DefaultTimeout. Events
// are written to fifos, too. It must be closed.
func New(timeout time.Duration, fifos *FIFOs, log *zap.Logger) *Runner {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, kill := context.WithCancel(context.Background())
	return &Runner{
		timeout: timeout, fifos: fifos, log: log, ctx: ctx, kill: kill,
		commands: map[key]Commands{}, queues: map[key]*queue{},
	}
}

// Configure sets the commands of all instances (start and reload), by name.
// Events that wait keep the commands of their time.
func (r *Runner) Configure(kind string, commands map[string]Commands) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.commands {
		if k.kind == kind {
			delete(r.commands, k)
		}
	}
	for name, c := range commands {
		r.commands[key{kind, name}] = c
	}
}

// Notify writes an event to the FIFOs and queues its commands. It never blocks;
// after Close it does nothing.
func (r *Runner) Notify(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.fifos.Write(VRRP, e.line())
	r.queue(e, r.commands[key{e.Kind, e.Name}].commands(e))
}

// Run queues commands of an event that is not one of an instance or a sync group, behind what waits for the same
// kind and name. It never blocks; after Close it does nothing.
func (r *Runner) Run(e Event, commands ...Command) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.queue(e, commands)
	}
}

// queue puts an event with its commands into its queue. Called with mu held.
func (r *Runner) queue(e Event, run []Command) {
	if len(run) == 0 {
		return
	}
	k := key{e.Kind, e.Name}
	q := r.queues[k]
	if q == nil {
		q = &queue{Status: Status{Kind: e.Kind, Name: e.Name}}
		r.queues[k] = q
	}
	if len(q.events) >= QueueMax {
		old := q.events[0]
		q.events = slices.Delete(q.events, 0, 1)
		q.Dropped++
		if q.Dropped&(q.Dropped-1) == 0 { // 1, 2, 4, 8 …
			r.log.Error("notification dropped: its commands are too slow for the state changes; look at the command that runs",
				old.whose(), zap.String("state", old.State),
				zap.Uint64("dropped", q.Dropped), zap.String("running", q.Running))
		}
	}
	q.events = append(q.events, queued{e, run})
	if !q.busy {
		q.busy = true
		r.workers.Add(1)
		go func() {
			defer r.workers.Done()
			r.work(q)
		}()
	}
}

// work runs the commands of one queue until it is empty.
func (r *Runner) work(q *queue) {
	for {
		r.mu.Lock()
		if r.ctx.Err() != nil {
			q.Dropped += uint64(len(q.events))
			q.events = nil
		}
		if len(q.events) == 0 {
			q.busy = false
			r.mu.Unlock()
			return
		}
		e := q.events[0]
		q.events = slices.Delete(q.events, 0, 1)
		r.mu.Unlock()
		for _, c := range e.commands {
			if err := process.Guard(func() { r.runOne(q, e.Event, c) }); err != nil {
				r.log.Error("a notification command met a fault in vipd; the others go on", e.whose(),
					zap.String("command", strings.Join(c.Argv, " ")), zap.NamedError("err", err))
			}
		}
	}
}

// runOne runs one command to its end.
func (r *Runner) runOne(q *queue, e Event, c Command) {
	line := strings.Join(c.Argv, " ")
	r.mu.Lock()
	q.Running = line
	r.mu.Unlock()
	out := c.run(r.ctx, r.timeout)
	r.mu.Lock()
	q.Running, q.LastExit = "", out.String()
	if out.OK() {
		q.Done++
	} else {
		q.Failed++
	}
	r.mu.Unlock()
	if !out.OK() {
		r.log.Warn("notification command failed",
			e.whose(), zap.String("state", e.State), zap.String("command", line),
			zap.String("output", out.Output), zap.NamedError("err", out.Err))
	}
}

// run runs a command to its end.
func (c *Command) run(ctx context.Context, timeout time.Duration) process.Outcome {
	if c.UserErr != "" {
		return process.Outcome{Started: time.Now(), Exit: -1, Err: errors.New(c.UserErr)}
	}
	return process.Run(ctx, process.Command{Argv: c.Argv, Env: append(process.Environment(), c.Env...), Timeout: timeout, User: c.User, Secure: c.Secure})
}

// Once runs a command that is not about an event (startup_script, shutdown_script)
// and waits for it.
func Once(ctx context.Context, c Command, timeout time.Duration) error {
	if out := c.run(ctx, timeout); out.Err != nil {
		if out.Output != "" {
			return fmt.Errorf("running %s: %w (%s)", strings.Join(c.Argv, " "), out.Err, out.Output)
		}
		return fmt.Errorf("running %s: %w", strings.Join(c.Argv, " "), out.Err)
	}
	return nil
}

// Close takes no more events, lets the commands of those that wait run for at
// most CloseWait or until ctx ends, then kills what runs. It returns when all
// is over, with an error when something was cut off.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	defer r.kill()
	done := make(chan struct{})
	go func() {
		r.workers.Wait()
		close(done)
	}()
	wait, cancel := context.WithTimeout(ctx, CloseWait)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-wait.Done():
	}
	cut := r.unfinished()
	r.kill()
	<-done
	if len(cut) == 0 {
		return nil
	}
	return fmt.Errorf("stopping notifications: cut off %s", strings.Join(cut, "; "))
}

// unfinished names what runs and waits.
func (r *Runner) unfinished() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var cut []string
	for _, q := range r.queues {
		if q.busy {
			cut = append(cut, fmt.Sprintf("%s: %q and %d events", q.Name, q.Running, len(q.events)))
		}
	}
	slices.Sort(cut)
	return cut
}

// Status tells about all instances that had an event with a command, by name.
func (r *Runner) Status() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Status, 0, len(r.queues))
	for _, q := range r.queues {
		s := q.Status
		s.Queued = len(q.events)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int {
		return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name)
	})
	return out
}
