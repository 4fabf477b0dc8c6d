package lab_test

import (
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

func TestSiteIsConnected(t *testing.T) {
	l := lab.New(t)
	cl, d1, r1 := l.Node("cl"), l.Node("d1"), l.Node("r1")
	targets := []netip.Addr{d1.Addr(), r1.Addr(), d1.Addr6(), d1.AddrOn(1), l.Switch().Addr()}
	p := cl.Ping(20*time.Millisecond, targets...)
	time.Sleep(200 * time.Millisecond)
	for _, target := range targets {
		mine := lab.Filter(p.Probes(), func(p lab.Probe) bool { return p.Target == target })
		if len(lab.Answered(mine)) == 0 && target != d1.AddrOn(1) { // eth1's replies come in on eth1
			t.Errorf("%v does not answer", target)
		}
	}
	p.Stop()
	if !slices.ContainsFunc(d1.Addresses(), func(a lab.Address) bool { return a.Prefix.Addr() == d1.LinkLocal() }) {
		t.Errorf("d1 has no %v", d1.LinkLocal())
	}
	if out := cl.IP("-6 addr show tentative"); strings.TrimSpace(out) != "" {
		t.Errorf("addresses wait for duplicate detection:\n%s", out)
	}
}

func TestPingerKeepsItsRate(t *testing.T) {
	l := lab.New(t, "d1", "cl")
	p := l.Node("cl").Ping(time.Millisecond, l.Node("d1").Addr())
	time.Sleep(time.Second)
	probes := p.Stop()
	if n := len(probes); n < 900 || n > 1100 {
		t.Errorf("%d probes in a second at 1 kHz", n)
	}
	if lost := len(lab.LostProbes(probes)); lost > 2 { // the first wait for ARP
		t.Errorf("%d of %d lost on a quiet LAN", lost, len(probes))
	}
}

func TestUnplugAndFlush(t *testing.T) {
	l := lab.New(t, "d1", "cl")
	cl, d1 := l.Node("cl"), l.Node("d1")
	answers := func() bool {
		_, err := cl.Try("ping", "-c1", "-W1", d1.Addr().String())
		return err == nil
	}
	if !answers() {
		t.Fatal("d1 does not answer")
	}
	d1.Unplug(0)
	if answers() {
		t.Error("d1 answers without an interface")
	}
	d1.Plug(0)
	l.Eventually(3*time.Second, "d1 answers with its new interface", answers)
	d1.Flush(0)
	if answers() {
		t.Error("d1 answers without an address")
	}
	d1.Readdress(0)
	l.Eventually(3*time.Second, "d1 answers with its address back", answers)
}

func TestServersAndClients(t *testing.T) {
	l := lab.New(t, "r1", "cl")
	cl, r1 := l.Node("cl"), l.Node("r1")
	s := r1.Serve(80, "one")
	r1.ServeUDP(53, r1.Addr(), "dns")
	to := netip.AddrPortFrom(r1.Addr(), 80)

	shares, err := cl.Spread(to, 50, 4, time.Second)
	if err != nil || shares["one"] != 50 || s.AcceptedFrom(cl.Addr()) != 50 {
		t.Errorf("shares %v, accepted %d, error %v", shares, s.AcceptedFrom(cl.Addr()), err)
	}
	if status, reply, err := cl.Get(to, "/", time.Second); err != nil || status != "HTTP/1.1 200 Status" || !strings.HasSuffix(reply, "\r\n\r\none\n") {
		t.Errorf("HTTP: %q %q %v", status, reply, err)
	}
	s.HTTP(503, "no")
	if status, _, err := cl.Get(to, "/", time.Second); err != nil || status != "HTTP/1.1 503 Status" {
		t.Errorf("HTTP: %q %v", status, err)
	}
	if answer, err := cl.AskUDP(netip.AddrPortFrom(r1.Addr(), 53), time.Second); err != nil || answer != "dns" {
		t.Errorf("UDP: %q %v", answer, err)
	}
	kept := cl.Open(to, 1, 1, time.Second)[0]
	s.SetMode(lab.Hang)
	if _, err := cl.Spread(to, 1, 1, 200*time.Millisecond); err == nil {
		t.Error("a hanging server answered")
	}
	s.SetMode(lab.Reset)
	if c := cl.Open(to, 1, 1, time.Second)[0]; c.Err == nil {
		t.Error("a resetting server answered")
	}
	s.SetMode(lab.Refuse)
	if c := cl.Open(to, 1, 1, time.Second)[0]; c.Err == nil || !strings.Contains(c.Err.Error(), "refused") {
		t.Errorf("a closed port: %v", c.Err)
	}
	s.SetMode(lab.Answer)
	if name, err := kept.Ask(time.Second); err != nil || name != "one" {
		t.Errorf("the open connection did not survive: %q %v", name, err)
	}
	s.Handle(func(c net.Conn) { c.Write([]byte("other\n")) })
	if c := cl.Open(to, 1, 1, time.Second)[0]; c.Server != "other" {
		t.Errorf("handler: %q %v", c.Server, c.Err)
	}
}

func TestRealServerHoldsVIPSilently(t *testing.T) {
	l := lab.New(t, "r1", "d1", "cl")
	vip := lab.VIP()
	l.Node("r1").HoldVIP(vip, lab.VIP6())
	if owners := l.Owners(vip); len(owners) != 0 {
		t.Errorf("owners %v", owners)
	}
	if _, err := l.Node("cl").Try("arping", "-I", "eth0", "-f", "-w", "1", vip.String()); err == nil {
		t.Error("the real server answers ARP for the VIP")
	}
	l.Node("d1").IP("addr add " + vip.String() + "/32 dev eth0") // the twin that must answer
	if out, err := l.Node("cl").Try("arping", "-I", "eth0", "-f", "-w", "1", vip.String()); err != nil {
		t.Errorf("the director does not answer ARP for the VIP: %v %s", err, out)
	}
	if owners := l.Owners(vip); !slices.Equal(owners, []string{"d1"}) {
		t.Errorf("owners %v", owners)
	}
}

func TestInjectedFramesAreSeen(t *testing.T) {
	l := lab.New(t, "d1", "cl")
	c := l.Node("cl").Capture()
	// A VRRPv3 advert of 10.9.0.1: VRID 7, priority 9, 10 ms, 10.9.0.100; no checksums.
	frame, err := hex.DecodeString("01005e000012" + "020000090001" + "0800" +
		"4500002000010000ff7000000a090001e0000012" + "3107090100010000" + "0a090064")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	l.Node("d1").Inject(frame)
	a := c.WaitAdvert(2*time.Second, 7, l.Node("d1").Addr(), before)
	if a.Version != 3 || a.Priority != 9 || a.Interval != 10*time.Millisecond || a.TTL != 255 || !slices.Equal(a.Addrs, []netip.Addr{lab.VIP()}) || a.SrcMAC != l.Node("d1").MAC() {
		t.Errorf("decoded %v: %+v", a, a)
	}
}

func TestLeftoversOfAKilledRunAreRemoved(t *testing.T) {
	// A pid above the kernel's limit is nobody's.
	const ns = "vl99999999-dead-d1"
	lab.New(t, "cl") // makes /run/netns
	if out, err := lab.New(t, "cl").Node("cl").Try("ip", "netns", "add", ns); err != nil {
		t.Fatal(out, err)
	}
	lab.New(t, "cl")
	if _, err := os.Stat("/run/netns/" + ns); err == nil {
		t.Errorf("%s is still there", ns)
	}
}

func TestConfigurationsForBothDaemons(t *testing.T) {
	i := lab.Instance{Priority: 150, Version: 2, VIPs: []netip.Addr{lab.VIP()}, AuthPass: "secret", NoPreempt: true, Extra: []string{"garp_master_delay 3", "lvs_sync_daemon eth0 x"}}
	const ka = `
vrrp_instance VI_1 {
    interface eth0
    virtual_router_id 51
    version 2
    priority 150
    advert_int 1
    nopreempt 
    garp_master_delay 3
    lvs_sync_daemon eth0 x
    authentication {
        auth_type PASS
        auth_pass secret
    }
    virtual_ipaddress {
        10.9.0.100/32
    }
}
`
	const toml = `
[vrrp_instance.VI_1]
interface = "eth0"
virtual_router_id = 51
version = 2
priority = 150
advert_int = 1
nopreempt = true
garp_master_delay = 3
lvs_sync_daemon = "eth0 x"
virtual_ipaddress = [
  "10.9.0.100/32",
]
[vrrp_instance.VI_1.authentication]
auth_type = "PASS"
auth_pass = "secret"
`
	if got := lab.KeepalivedConf("", i); got != ka {
		t.Errorf("keepalived:\n%s", got)
	}
	if got := lab.VipdConf("", i); got != toml {
		t.Errorf("vipd:\n%s", got)
	}
}
