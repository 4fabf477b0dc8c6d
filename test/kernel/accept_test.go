package kernel

import (
	"net/netip"
	"testing"
	"time"

	"vipd/test/lab"
)

// What `vipd check` warns of: a drop in the input hook before priority 99 takes
// the packets of a service away from IPVS. And on a kernel without nftables in the
// families ip and ip6, as this one, an instance with no_accept is in FAULT, says
// why, and the others work.
func TestNoAcceptBesideIPVS(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.start(alone(web(vipA(), "rr", 1, 1, 1)))[0]
	s.d[0].WaitWeights(5*time.Second, tcp(vipA()), weights(1, 1, 1))
	works := func() bool {
		_, err := s.cl.Spread(at(vipA(), 80), 3, 3, patience)
		return err == nil
	}
	if !works() {
		t.Fatal("the service does not work")
	}
	s.d[0].Exec("iptables-legacy", "-I", "INPUT", "-d", vipA().String(), "-j", "DROP") // priority 0
	if works() {
		t.Error("IPVS got packets that a rule at priority 0 drops")
	}
	s.d[0].Exec("iptables-legacy", "-D", "INPUT", "-d", vipA().String(), "-j", "DROP")

	refused := netip.MustParseAddr("10.9.0.120")
	d.Reload(alone() + lab.VipdConf("", lab.Instance{Name: "N", VRID: 54, Priority: 200, Interval: brisk, VIPs: []netip.Addr{refused}, Extra: []string{"no_accept"}}) +
		web(vipA(), "rr", 1, 1, 1))
	d.WaitLog("FAULT.*no_accept is not possible.*the kernel has no nftables", 5*time.Second)
	time.Sleep(5 * brisk)
	if s.d[0].Has(refused) {
		t.Error("the address is here although packets to it would be accepted")
	}
	if !works() {
		t.Error("the service on the other instance does not work any more")
	}
	if began := d.Stop(5 * time.Second); time.Since(began) > time.Second+slack {
		t.Errorf("stopping took %v", time.Since(began))
	}
}
