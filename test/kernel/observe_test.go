package kernel

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// observedKeepalived is a service of keepalived, and the same of vipd, without VRRP. Of its
// servers one does not answer.
const (
	observedKeepalived = `virtual_server 10.9.0.100 80 {
    delay_loop 1
    lb_algo rr
    lb_kind DR
    protocol TCP
    real_server 10.9.0.11 80 {
        weight 1
        TCP_CHECK {
            connect_timeout 1
        }
    }
    real_server 10.9.0.12 80 {
        weight 2
        TCP_CHECK {
            connect_timeout 1
        }
    }
    real_server 10.9.0.13 80 {
        weight 3
        TCP_CHECK {
            connect_timeout 1
            retry 0
        }
    }
}
`
	observedTOML = `[global_defs]
lvs_sync_daemon = "eth0 id 5"
lvs_timeouts = "udp 60"

[[virtual_server]]
address = "10.9.0.100:80"
lvs_sched = "rr"
lvs_method = "DR"
TCP_CHECK = { connect_timeout = 1 }
real_server = [
  { address = "10.9.0.11:80", weight = 1 },
  { address = "10.9.0.12:80", weight = 2 },
  { address = "10.9.0.13:80", weight = 3 },
]
`
)

// The first day of a migration, for a balancer: vipd run --observe beside a keepalived
// that has the services.
//
// Claim: a server that keepalived has taken out counts as down, so both agree; what
// differs is told as the ipvsadm commands that vipd would run, sync daemons, timeouts and settings of IPVS too; and none
// is run.
func TestObserveTable(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	s.servers[2].Kill() // of r3
	file := filepath.Join(s.Dir(), "keepalived.conf")
	if err := os.WriteFile(file, []byte(observedKeepalived), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Start("keepalived", "keepalived", "-n", "-l", "-D", "-C", "-f", file, "-p", file+".pid", "-c", file+".check.pid", "-r", file+".vrrp.pid")
	d.WaitWeights(15*time.Second, tcp(vipA()), weights(1, 2))
	d.Sh("ipvsadm --start-daemon backup --mcast-interface eth0 --syncid 6; ipvsadm --start-daemon master --mcast-interface eth0 --syncid 5")
	standing := func() string {
		return daemons(d) + d.Exec("ipvsadm", "-l", "--timeout") + d.ReadSysctl("net/ipv4/vs/sync_threshold")
	}
	stood := standing()
	v := d.Vipd(observedTOML, "--observe")
	for _, line := range []string{
		"in every state: would set net.ipv4.vs.sync_threshold from 3 50 to 3 0",
		"in every state: would change the timeouts of IPVS from tcp 900s, tcpfin 120s, udp 300s to tcp 900s, tcpfin 120s, udp 60s",
		"--start-daemon master --mcast-interface eth0 --syncid 5 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1 .there already.",
		"DIFFERS from the one there: ipvsadm --start-daemon backup --mcast-interface eth0 --syncid 6",
	} {
		v.WaitLog(line, 5*time.Second)
	}
	v.WaitLog("agrees: the IPVS table is as vipd would make it", 10*time.Second)
	d.Sh("ipvsadm -e -t 10.9.0.100:80 -r 10.9.0.12:80 -g -w 77; ipvsadm -A -t 192.0.2.1:25 -s rr")
	v.WaitLog("DIFFERS: vipd would make 1 change in the IPVS table", 10*time.Second)
	v.WaitLog("would run: ipvsadm -e -t 10.9.0.100:80 -r 10.9.0.12:80 -g -w 2", time.Second)
	time.Sleep(3 * time.Second) // vipd itself would have put it right by now
	before := d.Table().String()
	if got := d.Table()[tcp(vipA())].Weights["10.9.0.12:80"]; got != 77 {
		t.Errorf("the weight is %d: somebody has put it right", got)
	}
	v.Stop(5 * time.Second)
	if now := standing(); now != stood {
		t.Errorf("sync daemons, timeouts and settings were\n%s\nand are\n%s", stood, now)
	}
	if after := d.Table().String(); after != before {
		t.Errorf("the table has changed from\n%s\nto\n%s", before, after)
	}
}
