package check

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vipd/conf"
)

// Every command of the configuration is looked at, and named by its key.
func TestCommands(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := conf.Command{Argv: []string{"/nonexistent/x"}}
	cfg := &conf.Config{
		Global: conf.Global{
			ScriptSecurity: true, Startup: conf.Hook{Command: bad}, Shutdown: conf.Hook{Command: bad},
			NotifyFIFO: conf.FIFO{Path: plain, Script: bad}, VRRPFIFO: conf.FIFO{Path: filepath.Join(dir, "later"), Script: bad}, LVSFIFO: conf.FIFO{Script: bad},
		},
		Scripts:    []conf.Script{{Name: "chk", Argv: bad.Argv}, {Name: "good", Argv: []string{"/bin/true"}}},
		TrackFiles: []conf.TrackFile{{Name: "load", Path: dir + "/none/load"}, {Name: "fine", Path: dir + "/fine"}},
		Instances: []conf.Instance{{Name: "A", Notify: conf.Notify{
			Any: bad, Master: bad, Backup: bad, Fault: bad, Stop: bad, Deleted: bad, LowerPri: bad,
		}}, {Name: "B", Notify: conf.Notify{Any: conf.Command{Argv: []string{"/bin/true"}}}}},
		VirtualServers: []conf.VirtualServer{{Name: "web", Up: bad, Down: bad, RealServers: []conf.RealServer{{Address: netip.MustParseAddrPort("10.0.0.1:80"), Up: bad, Down: bad}, {}}}},
		SyncGroups:     []conf.SyncGroup{{Name: "G", Notify: conf.Notify{Stop: bad}}},
	}
	var got []string
	for _, line := range commands(cfg) {
		where, _, _ := strings.Cut(line, ":")
		got = append(got, where)
	}
	want := []string{
		"vrrp_script.chk", "global_defs.startup_script", "global_defs.shutdown_script", "global_defs.notify_fifo_script", "global_defs.notify_fifo",
		"global_defs.vrrp_notify_fifo_script", "global_defs.lvs_notify_fifo_script",
		"vrrp_instance.A.notify", "vrrp_instance.A.notify_master", "vrrp_instance.A.notify_backup", "vrrp_instance.A.notify_fault",
		"vrrp_instance.A.notify_stop", "vrrp_instance.A.notify_deleted", "vrrp_instance.A.notify_master_rx_lower_pri", "vrrp_sync_group.G.notify_stop",
		"virtual_server web", "virtual_server web", "virtual_server web", "virtual_server web", "vrrp_track_file.load",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
