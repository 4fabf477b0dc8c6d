package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// steered is a director whose services steer servers that a test takes down, with what its commands and FIFO said.
type steered struct {
	*lab.Node
	daemon *lab.Process
	dir    string
	read   map[string]int // how many lines of each file were looked at
}

// The services are the same for both daemons: quorum with hysteresis, commands and a sorry server that stays; a real
// server that is the sorry server, too, with inhibit; a weight of 0; alpha.
const steeringVipd = `[global_defs]
enable_script_security = false
lvs_notify_fifo = "DIR/fifo"
lvs_flush_on_stop = "VS"

[[virtual_server]]
address = "10.9.0.100:80"
lvs_sched = "rr"
lvs_method = "DR"
quorum = 2
hysteresis = 1
quorum_up = "DIR/say VS up"
quorum_down = "DIR/say VS down"
sorry_server = "10.9.0.99"
sorry_server_inhibit = true
omega = true
TIMING
real_server = [
  { address = "10.9.0.11", notify_up = "DIR/say r1 up", notify_down = "DIR/say r1 down" },
  { address = "10.9.0.12", notify_up = "DIR/say r2 up", notify_down = "DIR/say r2 down" },
  { address = "10.9.0.13", notify_up = "DIR/say r3 up", notify_down = "DIR/say r3 down" },
]

[[virtual_server]]
address = "10.9.0.100:81"
lvs_sched = "wrr"
lvs_method = "DR"
inhibit_on_failure = true
sorry_server = "10.9.0.11"
quorum_up = "DIR/say inhibited up"
quorum_down = "DIR/say inhibited down"
TIMING
real_server = [{ address = "10.9.0.11:81", weight = 3 }, { address = "10.9.0.12:81", weight = 4 }]

[[virtual_server]]
address = "10.9.0.100:82"
lvs_sched = "wrr"
lvs_method = "DR"
TIMING
real_server = [{ address = "10.9.0.11:82", weight = 0 }, { address = "10.9.0.12:82", weight = 5 }]

[[virtual_server]]
address = "10.9.0.100:83"
lvs_sched = "rr"
lvs_method = "DR"
alpha = true
quorum_up = "DIR/say alpha up"
quorum_down = "DIR/say alpha down"
TIMING
real_server = [
  { address = "10.9.0.11", notify_up = "DIR/say alpha r1 up", notify_down = "DIR/say alpha r1 down" },
  { address = "10.9.0.13", notify_up = "DIR/say alpha r3 up", notify_down = "DIR/say alpha r3 down" },
]
`

const steeringKeepalived = `global_defs {
 script_user root
 lvs_notify_fifo DIR/fifo
}
virtual_server 10.9.0.100 80 {
 TIMING
 lb_algo rr
 lb_kind DR
 protocol TCP
 quorum 2
 hysteresis 1
 quorum_up "DIR/say VS up"
 quorum_down "DIR/say VS down"
 sorry_server 10.9.0.99 80
 sorry_server_inhibit
 omega
 real_server 10.9.0.11 80 { 
  notify_up "DIR/say r1 up"
  notify_down "DIR/say r1 down"
  CHECK }
 real_server 10.9.0.12 80 { 
  notify_up "DIR/say r2 up"
  notify_down "DIR/say r2 down"
  CHECK }
 real_server 10.9.0.13 80 { 
  notify_up "DIR/say r3 up"
  notify_down "DIR/say r3 down"
  CHECK }
}
virtual_server 10.9.0.100 81 {
 TIMING
 lb_algo wrr
 lb_kind DR
 protocol TCP
 inhibit_on_failure
 sorry_server 10.9.0.11 81
 quorum_up "DIR/say inhibited up"
 quorum_down "DIR/say inhibited down"
 real_server 10.9.0.11 81 {
  weight 3
  CHECK }
 real_server 10.9.0.12 81 {
  weight 4
  CHECK }
}
virtual_server 10.9.0.100 82 {
 TIMING
 lb_algo wrr
 lb_kind DR
 protocol TCP
 real_server 10.9.0.11 82 {
  weight 0
  CHECK }
 real_server 10.9.0.12 82 {
  weight 5
  CHECK }
}
virtual_server 10.9.0.100 83 {
 TIMING
 lb_algo rr
 lb_kind DR
 protocol TCP
 alpha
 quorum_up "DIR/say alpha up"
 quorum_down "DIR/say alpha down"
 real_server 10.9.0.11 83 {
  notify_up "DIR/say alpha r1 up"
  notify_down "DIR/say alpha r1 down"
  CHECK }
 real_server 10.9.0.13 83 {
  notify_up "DIR/say alpha r3 up"
  notify_down "DIR/say alpha r3 down"
  CHECK }
}
`

// steer prepares the files of a director.
func (s *site) steer(n *lab.Node) *steered {
	d := &steered{Node: n, dir: filepath.Join(s.Dir(), "steer-"+n.Name), read: map[string]int{}}
	script := "#!/bin/sh\necho \"$*\" >>" + d.dir + "/said\n"
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(d.dir+"/say", []byte(script), 0o755); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// listen reads the FIFO.
func (d *steered) listen() {
	d.Sh("mkfifo " + d.dir + "/fifo 2>/dev/null || true")
	d.Start("reader", "sh", "-c", "exec cat 0<>"+d.dir+"/fifo >>"+d.dir+"/lines")
}

// lines are those of a file.
func (d *steered) lines(file string) []string {
	b, err := os.ReadFile(filepath.Join(d.dir, file))
	if err != nil || len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// news are the lines that a file has got since the last mark, sorted and each once: scripts run at the same time, and
// keepalived tells some things twice.
func (d *steered) news(file string) string {
	fresh := slices.Clone(d.lines(file)[d.read[file]:])
	slices.Sort(fresh)
	return strings.Join(slices.Compact(fresh), ", ")
}

// order is what each service told first of its servers and of itself, in order: whoever looks at several results at once
// tells of the servers first, and keepalived tells some things twice.
func (d *steered) order() string {
	var lines []string
	for _, l := range d.lines("lines")[d.read["lines"]:] {
		w := strings.Fields(l) // "RS SERVER SERVICE STATE" or "VS SERVICE STATE"
		if l = strings.Join([]string{w[len(w)-2], w[0], w[len(w)-1]}, " "); !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0]) })
	return strings.Join(lines, ", ")
}

// mark begins a new step.
func (d *steered) mark() {
	for _, file := range []string{"said", "lines"} {
		d.read[file] = len(d.lines(file))
	}
}

// TestSteeringLikeKeepalived takes servers away and brings them back before vipd and Debian's keepalived (2.2.7), which
// have the same services, and wants the same tables, commands and lines of both after every step.
func TestSteeringLikeKeepalived(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	vipd, keepalived := s.steer(s.d[0]), s.steer(s.d[1])
	with := func(d *steered, text, timing, check string) string {
		return strings.NewReplacer("DIR", d.dir, "TIMING", timing, "CHECK", check).Replace(text)
	}
	vipd.listen()
	keepalived.listen()
	mine := with(vipd, steeringVipd, "delay_loop = 1\nconnect_timeout = 1\nretry = 0\nwarmup = 0\nTCP_CHECK = { connect_port = 80 }", "")
	theirs := with(keepalived, steeringKeepalived, "delay_loop 1", "TCP_CHECK {\n connect_port 80\n connect_timeout 1\n retry 0\n warmup 0\n}")
	vd := s.d[0].Vipd(mine)
	vipd.daemon = vd.Process
	keepalived.daemon = s.d[1].KeepalivedChecks(theirs)
	// Without r3 in the service with omega and r2 in one without it, with a heavier r2, and without the last service.
	fewer := func() {
		cut := strings.Index(mine, "  { address = \"10.9.0.13\"")
		less := mine[:cut] + mine[cut+strings.Index(mine[cut:], "\n")+1:]
		less = strings.Replace(less[:strings.LastIndex(less, "[[virtual_server]]")], "weight = 4", "weight = 6", 1)
		vd.Reload(strings.Replace(less, ", { address = \"10.9.0.12:82\", weight = 5 }", "", 1))
		cut = strings.Index(theirs, " real_server 10.9.0.13 80")
		less = theirs[:cut] + "}\n" + theirs[strings.Index(theirs, "virtual_server 10.9.0.100 81"):strings.Index(theirs, "virtual_server 10.9.0.100 83")]
		less = less[:strings.Index(less, " real_server 10.9.0.12 82")] + "}\n"
		s.d[1].ReloadKeepalived(keepalived.daemon, strings.Replace(less, "weight 4", "weight 6", 1))
	}

	mode := func(i int, m lab.Mode) func() { return func() { s.servers[i].SetMode(m) } }
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"start", func() {}},
		{"r2 dies", mode(1, lab.Refuse)}, {"r3 dies", mode(2, lab.Refuse)}, {"r1 dies", mode(0, lab.Refuse)},
		{"r2 is back", mode(1, lab.Answer)}, {"r3 is back", mode(2, lab.Answer)}, {"r1 is back", mode(0, lab.Answer)},
		{"r1 dies again", mode(0, lab.Refuse)},
		{"reload", fewer},
		{"stop", func() { vipd.daemon.Stop(10 * time.Second); keepalived.daemon.Stop(10 * time.Second) }},
	} {
		step.do()
		time.Sleep(3 * time.Second) // a check, its time-out, and what follows
		for _, what := range []struct {
			name string
			of   func(d *steered) string
		}{
			{"table", func(d *steered) string { return fmt.Sprint(d.Table()) }},
			{"commands", func(d *steered) string { return d.news("said") }},
			{"FIFO", func(d *steered) string { return d.news("lines") }},
			{"order", (*steered).order},
		} {
			mine, theirs := what.of(vipd), what.of(keepalived)
			for end := time.Now().Add(10 * time.Second); mine != theirs && time.Now().Before(end); mine, theirs = what.of(vipd), what.of(keepalived) {
				time.Sleep(200 * time.Millisecond)
			}
			if mine != theirs {
				t.Errorf("%s: %s:\nvipd       %s\nkeepalived %s", step.name, what.name, mine, theirs)
			} else {
				t.Logf("%s: %s: %s", step.name, what.name, mine)
			}
		}
		vipd.mark()
		keepalived.mark()
	}
}
