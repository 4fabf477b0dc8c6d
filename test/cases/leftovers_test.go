package cases

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// O23: SIGKILL leaves the address, another node takes over, and on restart as
// BACKUP it is not removed: two nodes answer for it.
//
// Claim: at start, before the first advert, leftovers go: those of the
// configuration, with or without the state file, and those that the state file
// records of an earlier one. What others added stays.
func TestO23VIPLeftBehindAfterCrash(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, p *pair) // between crash and restart
		again   string                      // the configuration of the restart
	}{
		{"restarted as the lesser one", func(*testing.T, *pair) {}, lesser()},
		{"the state file is lost too", loseState, lesser()},
		{"state file lost, VIPs written otherwise", loseState, rewritten()},
		{"the VIPs left the configuration", func(*testing.T, *pair) {}, moved()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := quickPair(t)
			theirs := netip.MustParseAddr("10.9.0.77")
			p.d1.IP("addr add " + theirs.String() + "/32 dev eth0")
			p.v1.Kill()
			for _, f := range families() {
				p.WaitOwner(f.vip, 5*time.Second, "d1", "d2") // the fault: without it the case proves nothing
			}
			c.prepare(t, p)
			if err := os.WriteFile(p.v1.ConfigFile, []byte(c.again), 0o600); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			p.v1.Again()
			logs := watchFamilies(p)
			for _, f := range families() {
				p.WaitOwner(f.vip, time.Until(at.Add(time.Second)), "d2")
			}
			if c.again == moved() {
				first := p.seen.WaitAdvert(3*time.Second, 99, p.d1.Addr(), at)
				for i, f := range families() {
					periods := logs[i].Stop()
					if single := periods[len(periods)-1]; !single.From.Before(first.At) {
						t.Errorf("%s: d1's first advert came before the leftover was gone", f.name)
					}
				}
				p.WaitOwner(netip.MustParseAddr("10.9.0.150"), 2*time.Second, "d1")
			}
			time.Sleep(downTimer(quick, 50) + 2*quick)
			for _, f := range families() {
				p.WaitOwner(f.vip, 0, "d2")
				silent(t, p.seen, f.vrid, f.source(p.d1), at)
				steady(t, p.seen, f.vrid, f.source(p.d2), 100, quick, at)
				for _, a := range p.d1.Addresses() {
					for _, vip := range f.vips {
						if a.Prefix.Addr() == vip {
							t.Errorf("%s: d1 still has %v", f.name, a.Prefix)
						}
					}
				}
				p.waitNeigh(f, p.d2, time.Now().Add(time.Second))
			}
			if !p.d1.Has(theirs) {
				t.Errorf("an address that others added is gone: %v", theirs)
			}
		})
	}
}

// loseState removes all that the daemon kept of its last life.
func loseState(t *testing.T, p *pair) {
	t.Helper()
	if err := os.RemoveAll(p.v1.StateDir); err != nil {
		t.Fatal(err)
	}
}

// rewritten is lesser with the VIPs as addresses of their subnets.
func rewritten() string {
	return strings.NewReplacer("/32", "/24", "/128", "/64").Replace(lesser())
}

// lesser is d1's configuration with a priority below that of d2.
func lesser() string { return bothFamilies(lab.Instance{Priority: 50, Interval: quick}) }

// moved has another VIP in place of those of the pair.
func moved() string {
	return lab.VipdConf("", lab.Instance{Name: "NEW", VRID: 99, Priority: 200, Interval: quick, VIPs: []netip.Addr{netip.MustParseAddr("10.9.0.150")}})
}

// O23 in a container: vipd is process 1 of its pid namespace, for which signals
// have no default action.
//
// Claim: SIGTERM cleans up within 1 s: priority 0, no VIP, process gone. After a
// SIGKILL the next container, with nothing of the first but its configuration,
// removes what is left.
func TestO23ProcessOneOfContainer(t *testing.T) {
	t.Parallel()
	conf := func(prio int) string { return bothFamilies(lab.Instance{Priority: prio, Interval: quick}) }
	p := newPair(t, conf(200), conf(100)) // for d2; d1's own daemon ends first
	p.v1.Stop(5 * time.Second)

	c := newContainer(t, p, "c1", conf(200))
	for _, f := range families() {
		p.WaitOwner(f.vip, 5*time.Second, "d1")
	}
	at := c.signal(t, syscall.SIGTERM)
	for _, f := range families() {
		p.Eventually(time.Until(at.Add(time.Second)), f.name+": the VIP has left d1 within 1 s of SIGTERM", func() bool { return !p.d1.Has(f.vip) })
	}
	c.Wait(time.Until(at.Add(time.Second)))
	for _, f := range families() {
		last, ok := lab.LastBefore(lab.From(p.seen.Adverts(f.vrid), f.source(p.d1)), time.Now())
		if !ok || last.Priority != 0 || last.At.Before(at) {
			t.Errorf("%s: the last advert of d1 is %v, want priority 0", f.name, last)
		}
		p.WaitOwner(f.vip, time.Second, "d2")
	}

	c = newContainer(t, p, "c2", conf(200))
	for _, f := range families() {
		p.WaitOwner(f.vip, 5*time.Second, "d1")
	}
	c.signal(t, syscall.SIGKILL)
	for _, f := range families() {
		p.WaitOwner(f.vip, 5*time.Second, "d1", "d2")
	}
	at = time.Now()
	newContainer(t, p, "c3", conf(50))
	for _, f := range families() {
		p.WaitOwner(f.vip, time.Until(at.Add(time.Second)), "d2")
	}
	time.Sleep(downTimer(quick, 50) + 2*quick)
	for _, f := range families() {
		p.WaitOwner(f.vip, 0, "d2")
		silent(t, p.seen, f.vrid, f.source(p.d1), at)
	}
}

// container is vipd as process 1 of a pid namespace on d1.
type container struct{ *lab.Process }

// newContainer starts one with files of its own.
func newContainer(t *testing.T, p *pair, name, conf string) container {
	t.Helper()
	dir := filepath.Join(p.Dir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "vipd.toml")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return container{p.d1.Start(name, "unshare", "--pid", "--fork", "--mount-proc", lab.VipdBin(t), "run", "-c", file,
		"--socket", filepath.Join(dir, "s"), "--state-dir", filepath.Join(dir, "state"))}
}

// signal sends a signal to process 1 of the container and returns the time just before.
func (c container) signal(t *testing.T, s syscall.Signal) time.Time {
	t.Helper()
	pids := c.Children()
	if len(pids) != 1 {
		t.Fatalf("%s has the children %v, want process 1 of the container", c.Name, pids)
	}
	at := time.Now()
	if err := syscall.Kill(pids[0], s); err != nil {
		t.Fatalf("%s: signalling pid %d: %v", c.Name, pids[0], err)
	}
	return at
}
