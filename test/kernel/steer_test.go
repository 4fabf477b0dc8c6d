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
// server that is the sorry server, too, with inhibit; alpha and a weight of 0; a quorum that hysteresis puts out of reach.
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
real_server = [{ address = "10.9.0.11", weight = 0 }, { address = "10.9.0.12", weight = 5 }]
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

// news are the lines that a file has got since the last call, sorted: scripts run at the same time.
func (d *steered) news(file string) string {
	b, err := os.ReadFile(filepath.Join(d.dir, file))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	fresh := slices.Clone(all[min(d.read[file], len(all)):])
	d.read[file] = len(all)
	slices.Sort(fresh)
	return strings.Join(fresh, ", ")
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
	vd := s.d[0].Vipd(with(vipd, steeringVipd, "delay_loop = 1\nconnect_timeout = 1\nretry = 0\nwarmup = 0\nTCP_CHECK = { connect_port = 80 }", ""))
	vipd.daemon = vd.Process
	keepalived.daemon = s.d[1].KeepalivedChecks(with(keepalived, steeringKeepalived, "delay_loop 1", "TCP_CHECK {\n connect_port 80\n connect_timeout 1\n retry 0\n warmup 0\n}"))

	mode := func(i int, m lab.Mode) func() { return func() { s.servers[i].SetMode(m) } }
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"start", func() {}},
		{"r2 dies", mode(1, lab.Refuse)}, {"r3 dies", mode(2, lab.Refuse)}, {"r1 dies", mode(0, lab.Refuse)},
		{"r2 is back", mode(1, lab.Answer)}, {"r3 is back", mode(2, lab.Answer)}, {"r1 is back", mode(0, lab.Answer)},
		{"r1 dies again", mode(0, lab.Refuse)},
		{"stop", func() { vipd.daemon.Stop(10 * time.Second); keepalived.daemon.Stop(10 * time.Second) }},
	} {
		step.do()
		time.Sleep(3500 * time.Millisecond)
		for _, what := range []struct {
			name string
			of   func(d *steered) string
		}{
			{"table", func(d *steered) string { return fmt.Sprint(d.Table()) }},
			{"commands", func(d *steered) string { return d.news("said") }},
			{"FIFO", func(d *steered) string { return d.news("lines") }},
		} {
			mine, theirs := what.of(vipd), what.of(keepalived)
			if mine != theirs {
				t.Errorf("%s: %s:\nvipd       %s\nkeepalived %s", step.name, what.name, mine, theirs)
			} else {
				t.Logf("%s: %s: %s", step.name, what.name, mine)
			}
		}
	}
}
