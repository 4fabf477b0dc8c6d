//go:build !race

package lab_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vipd/test/lab"
	"vipd/test/uml"
)

// The lab works in the user-mode kernel as on the host. (Binaries built with
// -race do not run there; this file is left out of them.)
func TestInUserModeKernel(t *testing.T) {
	if uml.Inside() {
		return // this is the inner run
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	code, err := uml.Run(t.Context(), []string{exe, "-test.v", "-test.timeout=3m",
		"-test.run=^(TestKeepalivedFailsOver|TestFaultTools|TestRealServerHoldsVIPSilently|TestDirectRouting|TestServersAndClients)$"},
		uml.Options{Share: []string{filepath.Dir(exe)}, Timeout: 4 * time.Minute, Env: []string{"LAB_IPVS=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 {
		t.Errorf("the tests inside ended with status %d", code)
	}
}

// LVS-DR between namespaces, set up by hand: what the tests of the data path
// rely on. It runs where IPVS is, inside.
func TestDirectRouting(t *testing.T) {
	if !uml.Inside() {
		return // TestInUserModeKernel runs it
	}
	l := lab.New(t, "d1", "cl", "r1", "r2")
	vip, cl, d1 := lab.VIP(), l.Node("cl"), l.Node("d1")
	to := netip.AddrPortFrom(vip, 80)
	d1.IP("addr add " + vip.String() + "/32 dev eth0")
	d1.Sh("ipvsadm -A -t 10.9.0.100:80 -s rr; for i in 11 12; do ipvsadm -a -t 10.9.0.100:80 -r 10.9.0.$i:80 -g; done")
	for _, n := range l.Nodes("r1", "r2") {
		n.HoldVIP(vip)
		n.Serve(80, n.Name)
	}
	start := time.Now()
	shares, err := cl.Spread(to, 200, 4, 2*time.Second)
	if err != nil || shares["r1"] != 100 || shares["r2"] != 100 {
		t.Errorf("shares %v, error %v; want 100 each", shares, err)
	}
	t.Logf("200 connections in %v", time.Since(start))
}
