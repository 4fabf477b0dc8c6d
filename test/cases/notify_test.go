package cases

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// program writes a shell script that everybody may run and only root may change.
func program(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vipd-program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "run.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// told is what one daemon told: lines of its FIFO and arguments of notify, by instance.
type told struct{ fifo, args map[string][]string }

// tellsAll runs one daemon through a life: three instances, two of which a reload
// removes (C with notify_deleted), a lesser advert, a lost link, the stop.
func tellsAll(t *testing.T, keepalived bool) told {
	l := lab.New(t, "d1", "d2")
	d1, d2 := l.Node("d1"), l.Node("d2")
	fifo, out, args := l.Dir()+"/fifo", l.Dir()+"/lines", l.Dir()+"/args"
	script := program(t, `echo "$@" >>`+args)
	instances := func(names string) []lab.Instance {
		var list []lab.Instance
		for i, n := range "ABC" {
			if !strings.ContainsRune(names, n) {
				continue
			}
			in := lab.Instance{Name: string(n), VRID: uint8(51 + i), Priority: 200, Interval: quick, VIPs: []netip.Addr{mustAddr(fmt.Sprintf("10.9.0.%d", 100+i))},
				Extra: []string{"notify " + script, "notify_master_rx_lower_pri " + script}}
			if n == 'C' {
				in.Extra = append(in.Extra, "notify_deleted")
			}
			list = append(list, in)
		}
		return list
	}
	d1.Start("reader", "sh", "-c", fmt.Sprintf("while :; do [ -p %[1]s ] && cat %[1]s >>%[2]s; sleep 0.05; done", fifo, out))
	var p *lab.Process
	var reload func()
	if keepalived {
		before := "global_defs {\n vrrp_notify_fifo " + fifo + "\n}\n"
		p = d1.Keepalived(lab.KeepalivedConf(before, instances("ABC")...))
		file := filepath.Join(l.Dir(), "d1", "keepalived", "keepalived.conf")
		reload = func() {
			if err := os.WriteFile(file, []byte(lab.KeepalivedConf(before, instances("A")...)), 0o600); err != nil {
				t.Fatal(err)
			}
			p.Signal(syscall.SIGHUP)
		}
	} else {
		before := "[global_defs]\nvrrp_notify_fifo = \"" + fifo + "\"\n"
		v := d1.Vipd(lab.VipdConf(before, instances("ABC")...))
		p, reload = v.Process, func() { v.Reload(lab.VipdConf(before, instances("A")...)) }
		defer calm(t, v)
	}
	has := func(line string, n int) {
		t.Helper()
		l.Eventually(10*time.Second, fmt.Sprintf("%q %d times", line, n), func() bool {
			count := 0
			for _, got := range readLines(t, out) {
				if strings.TrimSpace(got) == line {
					count++
				}
			}
			return count >= n
		})
	}
	for _, n := range "ABC" {
		has(fmt.Sprintf("INSTANCE \"%c\" MASTER 200", n), 1)
	}
	reload()
	has(`INSTANCE "C" DELETED 200`, 1)
	time.Sleep(time.Second)
	d2.Inject(d2.Frame(lab.Speech{Src: d2.Addr(), VRID: 51, Priority: 50, Interval: quick, Addrs: []netip.Addr{lab.VIP()}}))
	has(`INSTANCE "A" MASTER_RX_LOWER_PRI 200`, 1)
	d1.LinkDown(0)
	has(`INSTANCE "A" FAULT 200`, 1)
	d1.LinkUp(0)
	has(`INSTANCE "A" MASTER 200`, 2)
	p.Stop(5 * time.Second)
	has(`INSTANCE "A" STOP 200`, 1)
	time.Sleep(300 * time.Millisecond)
	result := told{map[string][]string{}, map[string][]string{}}
	for _, line := range readLines(t, out) {
		f := strings.Fields(line)
		name := strings.Trim(f[1], `"`)
		result.fifo[name] = append(result.fifo[name], strings.TrimSpace(line))
	}
	for _, line := range readLines(t, args) {
		if f := strings.Fields(line); len(f) > 1 {
			result.args[f[1]] = append(result.args[f[1]], strings.TrimSpace(line))
		} else {
			result.args[""] = append(result.args[""], line) // notify_master_rx_lower_pri has no arguments of its own
		}
	}
	return result
}

// The FIFO gets keepalived's lines and notify its arguments, through all that can
// happen to an instance; Debian's keepalived tells the same in the same run.
func TestSameWordsAsKeepalived(t *testing.T) {
	t.Parallel()
	want := map[string][]string{
		"A": {`INSTANCE "A" BACKUP 200`, `INSTANCE "A" MASTER 200`, `INSTANCE "A" MASTER_RX_LOWER_PRI 200`, `INSTANCE "A" FAULT 200`,
			`INSTANCE "A" BACKUP 200`, `INSTANCE "A" MASTER 200`, `INSTANCE "A" STOP 200`},
		"B": {`INSTANCE "B" BACKUP 200`, `INSTANCE "B" MASTER 200`, `INSTANCE "B" FAULT 200`},
		"C": {`INSTANCE "C" BACKUP 200`, `INSTANCE "C" MASTER 200`, `INSTANCE "C" DELETED 200`},
	}
	for name, keepalived := range map[string]bool{"vipd": false, "keepalived": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tellsAll(t, keepalived)
			for name, lines := range want {
				if !slices.Equal(got.fifo[name], lines) {
					t.Errorf("the FIFO has\n%q, want\n%q", got.fifo[name], lines)
				}
				var args []string
				for _, line := range lines {
					if !strings.Contains(line, "LOWER_PRI") {
						args = append(args, strings.ReplaceAll(line, `"`, ""))
					}
				}
				slices.Sort(args) // keepalived does not wait for one before the next
				have := slices.Sorted(slices.Values(got.args[name]))
				if !slices.Equal(have, args) {
					t.Errorf("notify had\n%q, want\n%q", have, args)
				}
			}
			if n := len(got.args[""]); n != 1 {
				t.Errorf("notify_master_rx_lower_pri ran %d times", n)
			}
		})
	}
}

// O33 (ka#1055, ka#584, ka#569, ka#996) with every keyword: commands as another
// user, one that is stuck, and a FIFO beside them, while the state flaps. Calls are
// serial and in order, the FIFO has every event in order, and the election never
// waits; what others could change is not run.
func TestO33EveryKeyword(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	shared, err := os.MkdirTemp("", "vipd-o33")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shared) })
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	order := shared + "/order"
	if err := os.WriteFile(order, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(order, 0o666); err != nil {
		t.Fatal(err)
	}
	own := program(t, `echo "begin $* $(id -un)" >>`+order+`; sleep 0.0$(($$ % 4)); echo "end $*" >>`+order)
	loose := program(t, "echo loose >>"+order)
	if err := os.Chmod(loose, 0o777); err != nil {
		t.Fatal(err)
	}
	fifo, lines := shared+"/fifo", shared+"/lines"
	reader := program(t, `exec cat "$1" >>`+lines)
	before := fmt.Sprintf("[global_defs]\nscript_user = \"nobody\"\nvrrp_notify_fifo = %q\nvrrp_notify_fifo_script = %q\n"+
		"startup_script = { script = %q, user = \"root\" }\nshutdown_script = { script = [%q, \"shutdown\"] }\n", fifo, reader, own, own)
	a := one("A", 51, `["10.9.0.100"]`, "notify "+own, "notify_master "+own+" m", "notify_backup "+own+" b", "notify_fault "+loose, "notify_stop "+own+" s")
	v := d1.Vipd(lab.VipdConf(before, a))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	want := []string{`INSTANCE "A" BACKUP 200`, `INSTANCE "A" MASTER 200`}
	for range 10 {
		d1.PortDown(0)
		v.WaitState("A", "FAULT", 3*time.Second)
		up := d1.PortUp(0)
		v.WaitState("A", "MASTER", 3*time.Second)
		if took := time.Since(up); took > 2*time.Second {
			t.Errorf("the election took %v", took)
		}
		want = append(want, `INSTANCE "A" FAULT 200`, `INSTANCE "A" BACKUP 200`, `INSTANCE "A" MASTER 200`)
	}
	l.Eventually(20*time.Second, "all notifications", func() bool {
		return strings.Count(strings.Join(readLines(t, order), ""), "end INSTANCE") >= len(want)
	})
	v.Stop(5 * time.Second)
	want = append(want, `INSTANCE "A" STOP 200`)
	var got []string
	for _, line := range readLines(t, lines) {
		got = append(got, strings.TrimSpace(line))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the FIFO had\n%q, want\n%q", got, want)
	}
	expect := []string{"begin  root", "end "}
	for _, line := range want {
		args := strings.ReplaceAll(line, `"`, "")
		for _, w := range map[string][]string{"MASTER": {"m"}, "BACKUP": {"b"}, "STOP": {"s"}}[strings.Fields(args)[2]] {
			expect = append(expect, "begin "+w+" nobody", "end "+w)
		}
		expect = append(expect, "begin "+args+" nobody", "end "+args)
	}
	expect = append(expect, "begin shutdown nobody", "end shutdown")
	got = nil
	for _, line := range readLines(t, order) {
		got = append(got, strings.TrimSuffix(line, "\n"))
	}
	if !slices.Equal(got, expect) {
		t.Errorf("the commands ran as\n%q, want\n%q", got, expect)
	}
	v.WaitLog(`WARN notification command failed .*refused: `+loose+` can be written by everybody`, time.Second)
	calm(t, v)
}

// Priorities and, after a reload, states are written when that is asked for.
func TestFIFOKeywords(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	fifo, lines := l.Dir()+"/fifo", l.Dir()+"/lines"
	conf := "[global_defs]\nnotify_fifo = \"" + fifo + "\"\nvrrp_notify_priority_changes = true\nfifo_write_vrrp_states_on_reload = true\n" +
		lab.VipdConf("", one("A", 51, `["10.9.0.100"]`, `track_interface ["eth1 weight -50"]`))
	v := d1.Vipd(conf)
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	d1.LinkDown(1)
	l.Eventually(5*time.Second, "the lower priority", func() bool { return v.Status().Instance("A").EffectivePriority == 150 })
	v.Reload(conf)
	v.WaitLog("reloaded", 3*time.Second)
	// The reader comes last, and nothing was lost.
	d1.Start("reader", "sh", "-c", "cat "+fifo+" >>"+lines)
	want := []string{"INSTANCE \"A\" BACKUP 200\n", "INSTANCE \"A\" MASTER 200\n", "INSTANCE \"A\" MASTER_PRIORITY 150\n", "INSTANCE \"A\" MASTER 150\n"}
	l.Eventually(5*time.Second, "all lines", func() bool { return slices.Equal(readLines(t, lines), want) })
	v.Stop(5 * time.Second)
	if _, err := os.Stat(fifo); err == nil {
		t.Error("the FIFO is left behind")
	}
	calm(t, v)
}
