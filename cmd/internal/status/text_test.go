package status

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// What has not happened has no time: a reader of JSON would take the year 1 for one.
func TestTimesThatAreNot(t *testing.T) {
	s := Status{
		Started: time.Now(), ConfigLoaded: time.Now(), Instances: []Instance{{Since: time.Now()}},
		Scripts: []Script{{}}, TrackFiles: []TrackFile{{}}, TrackProcesses: []TrackProcess{{}},
		VirtualServers: []VirtualServer{{RealServers: []RealServer{{Checks: []Check{{}}}}}},
	}
	b, err := json.Marshal(s)
	if err != nil || strings.Contains(string(b), "0001-01-01") {
		t.Errorf("%v: %s", err, b)
	}
	s.VirtualServers[0].RealServers[0].Checks[0].LastRun = time.Now()
	if b, err = json.Marshal(s); err != nil || !strings.Contains(string(b), `"last_run":"2`) {
		t.Errorf("%v: no last_run in %s", err, b)
	}
}

func TestWriteText(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	s := Status{
		Version: "1.0", PID: 7, Started: now.Add(-time.Hour), ConfigFile: "/etc/vipd/vipd.toml", ConfigLoaded: now.Add(-time.Minute),
		ReloadError: "/etc/vipd/vipd.toml:3:1: error: …", Alarms: []string{"tcp 10.9.0.100:80 10.9.0.21:80 TCP_CHECK: no descriptors"},
		Instances: []Instance{{
			Name: "VI_1", State: "MASTER", Priority: 150, EffectivePriority: 130, VirtualRouterID: 51, Version: 3,
			Interface: "eth0", MasterAddress: "10.9.0.11", Since: now.Add(-90 * time.Second), Reason: "no advert from 10.9.0.12 for 3.6s",
			Notes: []string{"VRID conflict with 10.9.0.50 (3s ago)"},
			Addresses: []Address{
				{Address: "10.9.0.100/32", Interface: "eth0", Present: true},
				{Address: "10.9.0.101/32", Interface: "eth0", Error: "permission denied"},
			},
			VMACs: []VMAC{{Link: "vrrp.51", Parent: "eth0", MAC: "00:00:5e:00:01:33", Present: true}, {Link: "vrrp1.51", Parent: "eth1", MAC: "00:00:5e:00:01:33", Error: "this kernel has no macvlan"}},
		}},
		SyncGroups: []SyncGroup{{Name: "G1", State: "MASTER", Members: []string{"VI_1", "VI_2"}}},
		Scripts:    []Script{{Name: "chk", State: "FAILED", LastRun: now.Add(-time.Second), DurationMS: 12.3, Detail: "exit status 1"}},
		VirtualServers: []VirtualServer{{
			Name: "web", Service: "tcp 10.9.0.100:80", Scheduler: "wlc", State: "UP", Quorum: 1, Present: true,
			RealServers: []RealServer{
				{Address: "10.9.0.21:80", Method: "DR", State: "UP", Weight: 1, EffectiveWeight: 1, Present: true, ActiveConnections: 3,
					Checks: []Check{{Type: "TCP_CHECK", Known: true, Healthy: true, LastRun: now.Add(-2 * time.Second), Detail: "connected"}}},
				{Address: "10.9.0.22:80", Method: "DR", State: "DOWN", Weight: 1,
					Checks: []Check{{Type: "TCP_CHECK", Known: true, LastRun: now.Add(-2 * time.Second), Detail: "connection refused"}}},
			},
		}},
	}
	const want = `vipd 1.0, pid 7, up 1h0m0s, /etc/vipd/vipd.toml loaded 1m0s ago
LAST RELOAD REFUSED: /etc/vipd/vipd.toml:3:1: error: …
ALARM: tcp 10.9.0.100:80 10.9.0.21:80 TCP_CHECK: no descriptors

INSTANCE  STATE   PRIO          VRID   INTERFACE  MASTER     SINCE  REASON
VI_1      MASTER  130 (of 150)  51 v3  eth0       10.9.0.11  1m30s  no advert from 10.9.0.12 for 3.6s
  VI_1: VRID conflict with 10.9.0.50 (3s ago)
sync group G1 is MASTER: VI_1, VI_2

VIP            INTERFACE  INSTANCE  HERE
10.9.0.100/32  eth0       VI_1      yes
10.9.0.101/32  eth0       VI_1      no: permission denied

LINK      ON    VIRTUAL MAC        INSTANCE  HERE
vrrp.51   eth0  00:00:5e:00:01:33  VI_1      yes
vrrp1.51  eth1  00:00:5e:00:01:33  VI_1      no: this kernel has no macvlan

SCRIPT  STATE   LAST RUN  TOOK     DETAIL
chk     FAILED  1s        12.3 ms  exit status 1

tcp 10.9.0.100:80  wlc  UP  1 of 2 servers up  (web)
  SERVER        METHOD  STATE  WEIGHT  ACTIVE  INACTIVE  LAST CHECK
  10.9.0.21:80  DR      UP     1       3       0         TCP_CHECK 2s ago: connected
  10.9.0.22:80  DR      DOWN   out     0       0         TCP_CHECK 2s ago: connection refused
`
	var b strings.Builder
	if err := s.WriteText(&b, now); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestTextOfTrackers(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	s := Status{
		TrackFiles: []TrackFile{
			{Name: "load", File: "/run/load", Value: -20, Known: true, Watched: true, Changed: now.Add(-3 * time.Second)},
			{Name: "late", File: "/net/late", Detail: "the file does not exist"},
		},
		TrackProcesses: []TrackProcess{{Name: "web", State: "OK", Processes: 4, Changed: now.Add(-time.Minute), Source: "kernel events", Detail: "waiting for terminate_delay"}},
	}
	var b strings.Builder
	if err := s.writeTracked(&b, now); err != nil {
		t.Fatal(err)
	}
	const want = `
TRACK FILE  VALUE  CHANGED  FILE       DETAIL
load        -20    3s       /run/load  
late        ?      never    /net/late  the file does not exist; read once a second

PROCESS  STATE  COUNT  CHANGED  SOURCE         DETAIL
web      OK     4      1m0s     kernel events  waiting for terminate_delay
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

// TestWriteObserving: states that are not real must not be taken for real ones.
func TestWriteObserving(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	s := Status{Version: "1.0", PID: 7, Started: now, ConfigFile: "v.toml", ConfigLoaded: now, Observe: true, Instances: []Instance{{
		Name: "WEB", State: "MASTER", Priority: 150, EffectivePriority: 150, VirtualRouterID: 51, Version: 2, Interface: "eth0", Since: now, Reason: "no master heard",
		Keepalived: &Keepalived{State: "BACKUP", Text: "DIFFERS: so", Detail: "why", Differs: []string{"the interval"}},
	}}}
	const want = `vipd 1.0, pid 7, up 0s, v.toml loaded 0s ago
OBSERVING beside keepalived: nothing is changed and nothing sent; states are those that vipd would have

INSTANCE  STATE   PRIO  VRID   INTERFACE  MASTER  SINCE  REASON
WEB       MASTER  150   51 v2  eth0       -       0s     no master heard
  WEB: DIFFERS: so (why)
  WEB: this file is not what keepalived does: the interval

VIP  INTERFACE  INSTANCE  HERE
`
	var b strings.Builder
	if err := s.WriteText(&b, now); err != nil {
		t.Fatal(err)
	}
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestWritePaths(t *testing.T) {
	s := Status{
		Instances:       []Instance{{Name: "VI_1", Routes: []Path{{Route: "10.1.0.0/16 via 10.9.0.254", Present: true}}, Rules: []Path{{Rule: "from all table 100 priority 7", Error: "waits"}}}},
		StaticAddresses: []Address{{Address: "10.2.0.1/24", Interface: "eth1", Present: true}}, StaticRoutes: []Path{{Route: "blackhole 10.3.0.0/16", Present: true}},
	}
	var b strings.Builder
	if err := s.writePaths(&b); err != nil {
		t.Fatal(err)
	}
	const want = `
ROUTE OR RULE                       INSTANCE  HERE
route 10.1.0.0/16 via 10.9.0.254    VI_1      yes
rule from all table 100 priority 7  VI_1      no: waits
address 10.2.0.1/24 dev eth1        static    yes
route blackhole 10.3.0.0/16         static    yes
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestWriteGentle: what servers were told, and how they leave and return.
func TestWriteGentle(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	nine := 9
	v := VirtualServer{Name: "web", Service: "tcp 10.9.0.100:80", Scheduler: "rr", State: "UP", Present: true, RealServers: []RealServer{
		{Address: "10.0.0.1:80", Method: "DR", State: "DRAINING", Weight: 1, Present: true, Configured: true, Leaving: true, ActiveConnections: 3, Since: now.Add(-time.Minute),
			Until: now.Add(time.Hour), Overrides: []Override{{Kind: "drain", By: "alice (as root)", At: now.Add(-time.Minute), Until: now.Add(time.Hour)}}},
		{Address: "10.0.0.2:80", Method: "DR", State: "MAINTENANCE", Weight: 1, Configured: true, Overrides: []Override{{Kind: "maintenance", By: "root", At: now.Add(-time.Hour)}}},
		{Address: "10.0.0.3:80", Method: "DR", State: "UP", Weight: 1, EffectiveWeight: 9, Present: true, Configured: true, Ramping: true, Overrides: []Override{{Kind: "weight", Weight: &nine, By: "root", At: now}}},
		{Address: "10.0.0.4:80", Method: "DR", State: "DOWN", Weight: 1, EffectiveWeight: 1, Present: true, Configured: true, Kept: true},
		{Address: "10.0.0.5:80", Method: "DR", State: "DRAINING", Weight: 1, Present: true, Leaving: true, Since: now.Add(-time.Second)},
	}}
	var b strings.Builder
	if err := v.write(&b, now); err != nil {
		t.Fatal(err)
	}
	const want = `
tcp 10.9.0.100:80  rr  UP  1 of 5 servers up  (web)
  SERVER       METHOD  STATE        WEIGHT    ACTIVE  INACTIVE  LAST CHECK
  10.0.0.1:80  DR      DRAINING     0 (of 1)  3       0         
  10.0.0.2:80  DR      MAINTENANCE  out       0       0         
  10.0.0.3:80  DR      UP           9 (of 1)  0       0         
  10.0.0.4:80  DR      DOWN         1         0       0         
  10.0.0.5:80  DR      DRAINING     0 (of 1)  0       0         
  10.0.0.1:80: drain by alice (as root) 1m0s ago, at most until 2026-01-02 04:04:05
  10.0.0.1:80: ends its connections since 1m0s, at most until 2026-01-02 04:04:05
  10.0.0.2:80: maintenance by root 1h0m0s ago
  10.0.0.2:80: drained: it is out of the kernel's table
  10.0.0.3:80: weight 9 by root 0s ago
  10.0.0.3:80: on the way to its weight (slow_start)
  10.0.0.4:80: FAILED, and stays in for min_up
  10.0.0.5:80: configured no more; ends its connections since 1s
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}
