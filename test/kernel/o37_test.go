package kernel

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// repairWithin bounds the repair of what others did to our services.
const repairWithin = 5 * time.Second

// O37: somebody empties the table, changes a weight, adds and removes servers of
// ours by hand: all of it is put right within 5 s, at a reload too. Services that
// are not ours are never touched. A second daemon refuses to start and changes
// nothing.
func TestO37TableEmptiedByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	config := alone(web(vipA(), "rr", 1, 2, 3), web(vipB(), "wlc", 1, 1, 1))
	vipd := s.start(config)[0]
	d := s.d[0]
	d.WaitWeights(5*time.Second, tcp(vipA()), weights(1, 2, 3))
	d.WaitWeights(5*time.Second, tcp(vipB()), weights(1, 1, 1))
	d.Sh("ipvsadm -A -t 192.0.2.1:25 -s rr; ipvsadm -a -t 192.0.2.1:25 -r 192.0.2.9:25 -m -w 7")
	right := d.Table().String()
	repaired := func(t *testing.T, what string, since time.Time) {
		t.Helper()
		s.Eventually(repairWithin+slack, what+": the table is as it was", func() bool { return d.Table().String() == right })
		t.Logf("%s: repaired after %v", what, time.Since(since))
		if took := time.Since(since); took > repairWithin+slack {
			t.Errorf("%s: repaired after %v, want %v", what, took, repairWithin)
		}
	}

	foreign := "ipvsadm -A -t 192.0.2.1:25 -s rr; ipvsadm -a -t 192.0.2.1:25 -r 192.0.2.9:25 -m -w 7"
	for _, c := range []struct{ name, script string }{
		{"emptied", "ipvsadm -C; " + foreign},
		{"service deleted", "ipvsadm -D -t 10.9.0.101:80"},
		{"weight changed", "ipvsadm -e -t 10.9.0.100:80 -r 10.9.0.12:80 -g -w 77"},
		{"method changed", "ipvsadm -e -t 10.9.0.100:80 -r 10.9.0.12:80 -m -w 2"},
		{"server deleted", "ipvsadm -d -t 10.9.0.100:80 -r 10.9.0.11:80"},
		{"server added", "ipvsadm -a -t 10.9.0.100:80 -r 10.9.0.99:80 -g -w 5"},
		{"scheduler changed", "ipvsadm -E -t 10.9.0.100:80 -s wlc"},
	} {
		at := time.Now()
		d.Sh(c.script)
		if d.Table().String() == right && time.Since(at) < time.Second {
			t.Logf("%s: repaired before it could be seen", c.name)
		}
		repaired(t, c.name, at)
	}

	t.Run("a foreign service stays as it is", func(t *testing.T) {
		d.Sh("ipvsadm -e -t 192.0.2.1:25 -r 192.0.2.9:25 -m -w 8")
		right = strings.Replace(right, "192.0.2.9:25 Masq 7", "192.0.2.9:25 Masq 8", 1)
		d.Sh("ipvsadm -C; ipvsadm -A -t 192.0.2.1:25 -s rr; ipvsadm -a -t 192.0.2.1:25 -r 192.0.2.9:25 -m -w 8")
		at := vipd.Reload(config)
		repaired(t, "emptied, then a reload", at)
		if took := time.Since(at); took > slack {
			t.Errorf("the reload put it right after %v, want at once", took)
		}
		got, err := s.cl.Spread(netip.AddrPortFrom(vipA(), 80), 60, 2, patience)
		shares(t, got, err, map[string]int{"r1": 20, "r2": 20, "r3": 20})
	})

	t.Run("a second daemon refuses", func(t *testing.T) {
		before := d.Table().String()
		second := d.Start("second", lab.VipdBin(t), "run", "-c", vipd.ConfigFile, "--socket", vipd.Socket+"2", "--state-dir", vipd.StateDir)
		if code := second.Wait(5 * time.Second); code != 1 {
			t.Errorf("the second daemon ended with %d, want 1", code)
		}
		s.Eventually(2*time.Second, "the second daemon says why", func() bool { return strings.Contains(second.Log(), "another vipd") })
		if after := d.Table().String(); after != before || !vipd.Running() || !d.Has(vipA()) {
			t.Errorf("the second daemon changed something: table before %s, after %s, first one runs: %v", before, after, vipd.Running())
		}
	})
}
