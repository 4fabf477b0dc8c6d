package kernel

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// Programs and files set the weights that the kernel has, and take servers out.
func TestWeightsFromProgramsAndFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	dir := t.TempDir()
	status, load := filepath.Join(dir, "status"), filepath.Join(dir, "load")
	write := func(file, text string) time.Time {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return time.Now()
	}
	write(status, "12")
	write(load, "3")
	own := "address = \"10.9.0.100:80\"\nlvs_sched = \"wrr\"\nlvs_method = \"DR\"\n"
	conf := fmt.Sprintf("[vrrp_track_file.load]\nfile = %q\nweight = 2\n[[virtual_server]]\n%s%s", load, own, timing) + fmt.Sprintf(`
[[virtual_server.real_server]]
address = "10.9.0.11:80"
MISC_CHECK = { misc_path = ["/bin/sh", "-c", "read n <%s; exit $n"], misc_timeout = 3, misc_dynamic = true }
[[virtual_server.real_server]]
address = "10.9.0.12:80"
FILE_CHECK = { track_file = "load", dynamic = true }
[[virtual_server.real_server]]
address = "10.9.0.13:80"
FILE_CHECK = { track_file = "load" }
PING_CHECK = {}
`, status)
	s.start(alone(conf))
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(10, 7, -1))

	for _, c := range []struct {
		file, text string
		want       map[string]int
		limit      time.Duration
	}{
		{load, "0", weights(10, 1, 1), slack},
		{load, "-9", weights(10, 0, -1), slack},
		{load, "0", weights(10, 1, 1), slack},
		{status, "0", weights(1, 1, 1), backWithin + slack},
		{status, "255", weights(253, 1, 1), backWithin + slack},
		{status, "1", weights(-1, 1, 1), backWithin + slack},
		{status, "2", weights(0, 1, 1), backWithin + slack},
	} {
		at := write(c.file, c.text)
		seen := d.WaitWeights(c.limit+slack, tcp(vipA()), c.want)
		t.Logf("%s says %s: in the table after %v", filepath.Base(c.file), c.text, seen.Sub(at))
	}
}

// O41: programs of checks that hang never pile up: no more than
// checker_max_processes at once, each ended when its time is up, and the servers out.
func TestO41HangingPrograms(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	const most, hanging = 5, 50
	var b strings.Builder
	fmt.Fprintf(&b, "[[virtual_server]]\naddress = \"10.9.0.100:80\"\nlvs_method = \"DR\"\ndelay_loop = 1\n")
	fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = \"10.9.0.11:80\"\nMISC_CHECK = { misc_path = \"/bin/true\" }\n")
	for i := range hanging { // each another command, or they were one check
		fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = \"10.9.0.%d:80\"\nMISC_CHECK = { misc_path = \"/bin/sleep 1000%02d\", misc_timeout = \"500ms\" }\n", 100+i+1, i)
	}
	vipd := s.d[0].Vipd(lab.VipdConf("[global_defs]\nchecker_max_processes = 5\n", lab.Instance{Name: "A", VRID: 51, Priority: 200, Interval: brisk, VIPs: []netip.Addr{vipA()}}) + "\n" + b.String())
	began := map[int]time.Time{}
	longest, at := time.Duration(0), 0
	watch := func() {
		now, seen := time.Now(), map[int]bool{}
		for _, pid := range vipd.Children() {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err != nil || !strings.HasPrefix(string(text), "/bin/sleep") {
				continue
			}
			seen[pid] = true
			if began[pid].IsZero() {
				began[pid] = now
			}
			longest = max(longest, now.Sub(began[pid]))
		}
		at = max(at, len(seen))
		maps.DeleteFunc(began, func(pid int, _ time.Time) bool { return !seen[pid] })
	}
	s.Eventually(40*time.Second, "the servers whose programs hang are out", func() bool {
		watch()
		table, err := s.d[0].ProcTable()
		return err == nil && len(table[tcp(vipA())].Weights) == 1 && table[tcp(vipA())].Weights["10.9.0.11:80"] == 1
	})
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		watch()
	}
	t.Logf("at most %d at once, the longest ran %v", at, longest)
	if at > most || at < 2 {
		t.Errorf("%d programs ran at once, want 2 to %d", at, most)
	}
	if longest > 500*time.Millisecond+2*slack {
		t.Errorf("a program ran %v, its time is 500ms", longest)
	}
	vipd.Stop(10 * time.Second)
	if left := vipd.Children(); len(left) > 0 {
		t.Errorf("%d programs are left", len(left))
	}
}
