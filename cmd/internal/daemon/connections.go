package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vipd/cmd/internal/netns"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/ipvs/connsync"
	ipvsnl "vipd/ipvs/netlink"
	"vipd/vrrp/firewall"
)

// keepaliveTime is when TCP begins to try whether an idle peer is there.
const keepaliveTime = 7200 * time.Second

// CheckConnections compares with this machine what the configuration says of connections that outlive their director;
// each warning is one sentence. It changes nothing and loads no module.
func CheckConnections(cfg *conf.Config, root fs.FS) []string {
	var out []string
	kernel := ipvsnl.NewKernel(func(open func() error) error { return inTable(cfg.Place, open) })
	defer kernel.Close()
	if d := cfg.Global.SyncDaemon; d != nil {
		out = append(out, syncGroup(d, connsync.Group{In: kernel.In}.Reachable(ipvs.Daemon{
			Interface: d.Interface, Port: uint16(d.Port), TTL: uint8(d.TTL), Group: d.Group,
		}))...)
	}
	if cfg.Global.Shield > 0 {
		if _, err := (firewall.NFT{}).Tables("", "vipd"); errors.Is(err, firewall.ErrUnsupported) {
			out = append(out, "global_defs.shield: "+err.Error()+": resets are not held back after a takeover; load nf_tables, or use survive = \"mh\"")
		}
	}
	if len(cfg.VirtualServers) == 0 {
		return out
	}
	if _, err := fs.Stat(root, "proc/net/ip_vs"); err != nil {
		return out // not loaded: check loads nothing
	}
	if t, _, err := kernel.Facts(); err == nil && cfg.Global.LVSTimeouts.TCP == 0 {
		out = append(out, forgotten(cfg, t.TCP)...)
	}
	return append(out, crowd(root)...)
}

// inTable runs f in the namespace of the IPVS table.
func inTable(p conf.Place, f func() error) error {
	if p.IPVS != "" {
		return netns.Do(netns.Path(p.IPVS), f)
	}
	if p.Namespace != "" && !p.FirstIPVS {
		return netns.Do(netns.Path(p.Namespace), f)
	}
	return f()
}

// syncGroup explains why the group of the sync daemon is not reachable.
func syncGroup(d *conf.SyncDaemon, err error) []string {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENETUNREACH):
		return []string{fmt.Sprintf("global_defs.lvs_sync_daemon: the group %v cannot be reached by %s: the interface is down, or no route covers the group; nothing is synchronised until ip route add %s dev %[2]s", d.Group, d.Interface, connsync.Route(d.Group))}
	}
	return []string{fmt.Sprintf("global_defs.lvs_sync_daemon: %v; nothing is synchronised until that is put right", err)}
}

// forgotten warns of connections that are forgotten although both ends still have them.
func forgotten(cfg *conf.Config, timeout time.Duration) []string {
	tcp := slices.ContainsFunc(cfg.VirtualServers, func(v conf.VirtualServer) bool { return v.Protocol == "TCP" })
	if !tcp || timeout >= keepaliveTime {
		return nil
	}
	return []string{fmt.Sprintf("IPVS forgets a TCP connection that is idle for %d s, and TCP's keepalive begins after 7200 s: write lvs_timeouts = \"tcp 7200\" in global_defs, or lower net.ipv4.tcp_keepalive_time on clients or servers", int(timeout.Seconds()))}
}

// crowd warns of a table of connections that is too small for those that there are.
func crowd(root fs.FS) []string {
	b, err := fs.ReadFile(root, "sys/module/ip_vs/parameters/conn_tab_bits")
	if err != nil {
		return nil
	}
	tabBits, err := strconv.Atoi(strings.TrimSpace(string(b)))
	text, err2 := fs.ReadFile(root, "proc/net/ip_vs")
	if err != nil || err2 != nil || tabBits < 0 || tabBits > 30 {
		return nil
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 6 && f[0] == "->" && f[1] != "RemoteAddress:Port" {
			active, _ := strconv.Atoi(f[4])
			inactive, _ := strconv.Atoi(f[5])
			n += active + inactive
		}
	}
	if n <= bucketMost<<tabBits {
		return nil
	}
	return []string{fmt.Sprintf("IPVS has %d connections in a table of %d buckets (conn_tab_bits=%d): each packet searches through %d of them; write a larger conn_tab_bits (up to 20) for ip_vs into /etc/modprobe.d, and load the module anew", n, 1<<tabBits, tabBits, n>>tabBits)}
}
