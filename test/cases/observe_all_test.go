package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// everythingTOML uses all that vipd changes on a machine beside the table of IPVS.
func everythingTOML(dir, before string, priority int) string {
	return fmt.Sprintf(`%s
static_ipaddress = ["10.70.0.1/24 dev eth1"]
static_routes = ["10.71.0.0/16 via 10.70.0.9 dev eth1"]
static_rules = ["from 10.71.0.0/16 table 77 priority 770"]
[global_defs]
router_id = "R1"
notification_email = ["ops@example.com"]
smtp_server = "10.9.0.77 25"
smtp_alert = true
vrrp_notify_fifo = "%s/vipd-fifo"
startup_script = "/usr/bin/touch %[2]s/started"
disable_local_igmp = true
[vrrp_track_process.anything]
process = "vipd"
quorum = 0
[vrrp_instance.VI_1]
interface = "eth0"
virtual_router_id = 51
version = 3
priority = %[3]d
advert_int = 0.2
garp_master_refresh = 0
use_vmac = true
no_accept = true
promote_secondaries = true
track_process = ["anything"]
virtual_ipaddress = ["10.9.0.100/32"]
virtual_routes = ["10.50.0.0/16 via 10.9.0.77 dev eth0", "blackhole 10.51.0.0/16"]
virtual_rules = ["from 10.9.0.100 table 100 priority 1000"]
notify = "/usr/bin/touch %[2]s/notified"
notify_master = "/usr/bin/touch %[2]s/master"
`, before, dir, priority)
}

// everythingKeepalived is the same for keepalived, without what is not its own.
const everythingKeepalived = `global_defs {
    router_id R1
}
static_ipaddress {
    10.70.0.1/24 dev eth1
}
static_routes {
    10.71.0.0/16 via 10.70.0.9 dev eth1
}
static_rules {
    from 10.71.0.0/16 table 77 priority 770
}
vrrp_instance VI_1 {
    interface eth0
    virtual_router_id 51
    version 3
    priority 150
    advert_int 0.2
    use_vmac
    no_accept
    garp_master_delay 1
    virtual_ipaddress {
        10.9.0.100/32
    }
    virtual_routes {
        10.50.0.0/16 via 10.9.0.77 dev eth0
        blackhole 10.51.0.0/16
    }
    virtual_rules {
        from 10.9.0.100 table 100 priority 1000
    }
}
`

// everythingState is kernelState and the rest of what everythingTOML changes.
func everythingState(n *lab.Node) string {
	return kernelState(n) + n.Sh("cat /proc/sys/net/ipv4/igmp_link_local_mcast_reports; nft list ruleset")
}

// An observer of a configuration that uses everything: virtual MACs, no_accept, routes
// and rules that move, static objects, kernel settings, mail, commands, FIFOs, tracked
// processes.
//
// Claim: it tells all of it, in order, and what is there already; and the kernel, the
// files and the wire are as if it were not there. Beside a keepalived with the same
// configuration, on a node that has none, and there when it goes into its namespace by
// itself.
func TestObserveEverything(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		beside, namespace bool
	}{{"alone", false, false}, {"beside", true, false}, {"net_namespace", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1")
			d1 := l.Node("d1")
			dir := t.TempDir()
			if c.beside {
				d1.Keepalived(everythingKeepalived)
				l.WaitOwner(lab.VIP(), 15*time.Second, "d1")
				time.Sleep(3 * time.Second)
			}
			l.Eventually(15*time.Second, "the addresses of the node are settled", func() bool { return !strings.Contains(d1.IP("addr show"), "tentative") })
			seen := d1.Capture()
			time.Sleep(2 * time.Second) // the node has reported its own groups again
			before, began := everythingState(d1), time.Now()
			monitor := d1.Start("monitor", "ip", "monitor", "link", "address", "route", "rule")
			var v *lab.Daemon
			if c.namespace {
				v = d1.VipdOutside(everythingTOML(dir, fmt.Sprintf("net_namespace = %q", d1.NS), 150), "--observe")
			} else {
				v = d1.Vipd(everythingTOML(dir, "", 150), "--observe")
			}
			v.WaitLog("would become MASTER", 15*time.Second)
			time.Sleep(2 * time.Second)
			if changes := slices.DeleteFunc(differences(before, everythingState(d1)), vrrpFilter); len(changes) > 0 {
				t.Errorf("the kernel has changed: %q", changes)
			}
			noFiles(t, v, dir)
			v.Signal(syscall.SIGTERM)
			if code := v.Wait(5 * time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if after := everythingState(d1); after != before {
				t.Errorf("the kernel has changed at the end: %q", differences(before, after))
			}
			if log := monitor.Log(); log != "" {
				t.Errorf("something was changed:\n%s", log)
			}
			if sent := lab.Filter(lab.Between(seen.Frames(), began, time.Now()), func(f lab.Frame) bool { return f.Sent }); !c.beside && len(sent) > 0 {
				t.Errorf("%d frames were sent, the first is % x", len(sent), sent[0].Raw)
			}
			if n := len(seen.Announcements(lab.VIP())); c.beside && n > 0 {
				t.Errorf("%d announcements", n)
			}
			for _, line := range everythingTold(c.beside) {
				if !regexp.MustCompile(line).MatchString(v.Log()) {
					t.Errorf("no %q in\n%s", line, v.Log())
				}
			}
		})
	}
}

// vrrpFilter reports whether a change is that the card lets frames to the VRRP group in,
// which it must for an observer to hear what keepalived hears.
func vrrpFilter(line string) bool { return strings.Contains(line, "link  01:00:5e:00:00:12") }

// noFiles checks that an observer has written nothing but its socket.
func noFiles(t *testing.T, v *lab.Daemon, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("commands were run, or FIFOs made: %v, %v", entries, err)
	}
	list, err := filepath.Glob(filepath.Join(filepath.Dir(v.Socket), "*"))
	if list = slices.DeleteFunc(list, func(f string) bool { return f == v.Socket || f == v.ConfigFile }); err != nil || len(list) > 0 {
		t.Errorf("it has made %v (%v)", list, err)
	}
}

// everythingTold are the lines of an observer of everythingTOML.
func everythingTold(beside bool) []string {
	if beside {
		return []string{
			`would leave net/ipv4/conf/eth0/arp_ignore = 1 as it is`,
			`would make the link vrrp.51 with the virtual MAC 00:00:5e:00:01:33 on eth0 anew: that of another program is there`,
			`would add 10.70.0.1/24 to eth1 \(there already\)`,
			`would become MASTER: send an advert, refuse packets to 10.9.0.100 \(no_accept\), ` +
				`add 10.9.0.100/32 to vrrp.51 \(virtual MAC 00:00:5e:00:01:33 on eth0\) \(there already\), ` +
				`add .*10.50.0.0/16 via 10.9.0.77 .*there already.*announce 1 address by .*run .*/master, run .*/notified INSTANCE VI_1 MASTER 150, ` +
				`write to .*/vipd-fifo, mail ".*MASTER.*" to ops@example.com`,
		}
	}
	return []string{
		`would run /usr/bin/touch .*/started`, `would make the FIFO .*/vipd-fifo`,
		`would set net/ipv4/conf/eth0/promote_secondaries from 0 to 1|would leave net/ipv4/conf/eth0/promote_secondaries = 1`,
		`would have group reports and router solicitations not leave by vrrp.51 \(nftables table vipd\)`,
		`would make the link vrrp.51 with the virtual MAC 00:00:5e:00:01:33 on eth0`,
		`would set net/ipv4/conf/eth0/arp_ignore from 0 to 1`, `would set net/ipv4/conf/eth0/arp_announce from 0 to 2`,
		`would set net/ipv4/igmp_link_local_mcast_reports from 1 to 0`,
		`would add 10.70.0.1/24 to eth1`, `(would|could not) add route 10.71.0.0/16 via 10.70.0.9 dev eth1`, `would add rule from 10.71.0.0/16 table 77 priority 770`,
		`would go INIT -> BACKUP: run .*/notified INSTANCE VI_1 BACKUP 150, write to .*/vipd-fifo, mail ".*BACKUP.*" to ops@example.com`,
		`would become MASTER: send an advert, refuse packets to 10.9.0.100 \(no_accept\), add 10.9.0.100/32 to vrrp.51 \(virtual MAC 00:00:5e:00:01:33 on eth0\), ` +
			`add route 10.50.0.0/16 via 10.9.0.77 .*, route blackhole 10.51.0.0/16.*, rule from 10.9.0.100/32 table 100 priority 1000, announce 1 address by .*, run .*/master, ` +
			`run .*/notified INSTANCE VI_1 MASTER 150, write to .*/vipd-fifo, mail ".*MASTER.*" to ops@example.com`,
	}
}
