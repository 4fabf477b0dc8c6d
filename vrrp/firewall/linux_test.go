package firewall_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/firewall"
)

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// The kernel that CI and directors have takes the rules, gets them back after a flush, and keeps nothing at the end.
func TestFlushedRulesetIsPutBackInTheKernel(t *testing.T) {
	nft(t, "flush", "ruleset")
	f := firewall.New(firewall.NFT{}, "/run/vipd", func(err error) { t.Error("trouble:", err) }, nil)
	must(t, f.Configure(firewall.Options{Priority: -1}, firewall.IPv4, firewall.IPv6))
	if got := nft(t, "list", "ruleset"); got != "" {
		t.Errorf("the probe left:\n%s", got)
	}
	r := &rig{Firewall: f}
	r.run(t)
	must(t, f.Refuse(list(four, six, local)))
	must(t, f.Silence([]firewall.Link{{Name: "lo", Parent: 1}}))
	whole := func() string { return text(t, firewall.NFT{}, "/run/vipd", "vipd") }
	before := whole()
	nft(t, "add", "table", "inet", "filter")
	for _, hand := range [][]string{{"flush", "ruleset"}, {"flush", "table", "ip", "vipd"}, {"delete", "table", "ip6", "vipd"},
		{"delete", "element", "ip", "vipd", "refused", "{ 10.9.0.100 }"}, {"insert", "rule", "ip", "vipd", "in", "accept"}} {
		time.Sleep(100 * time.Millisecond) // the last look is over
		nft(t, hand...)
		began := time.Now()
		eventually(t, "the rules are back after "+strings.Join(hand, " "), func() bool { return whole() == before })
		if d := time.Since(began); d > 500*time.Millisecond {
			t.Errorf("after %q the rules were back after %v", hand, d)
		}
	}
	nft(t, "add", "table", "inet", "filter")
	must(t, f.Release())
	if got := nft(t, "list", "ruleset"); strings.TrimSpace(got) != "table inet filter {\n}" {
		t.Errorf("in the end there is:\n%s", got)
	}
}

// frames records what leaves by the far end of a veth pair, as lines "source-MAC kind".
type frames struct {
	mu   sync.Mutex
	seen map[string]int
}

func (f *frames) has(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[what] > 0
}

func (f *frames) clear() { f.mu.Lock(); defer f.mu.Unlock(); f.seen = map[string]int{} }

func listen(t *testing.T, dev string) *frames {
	t.Helper()
	l, err := net.InterfaceByName(dev)
	must(t, err)
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, int(all))
	must(t, err)
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Index}))
	file := os.NewFile(uintptr(fd), "packet")
	f := &frames{seen: map[string]int{}}
	done := make(chan struct{})
	t.Cleanup(func() { file.Close(); <-done })
	go func() {
		defer close(done)
		b := make([]byte, 2000)
		for {
			n, err := file.Read(b)
			if err != nil {
				return
			}
			if kind := kindOf(b[:n]); kind != "" {
				f.mu.Lock()
				f.seen[net.HardwareAddr(b[6:12]).String()+" "+kind]++
				f.mu.Unlock()
			}
		}
	}()
	return f
}

// kindOf names the frames that the test is about.
func kindOf(b []byte) string {
	switch {
	case len(b) < 24:
	case b[12] == 8 && b[13] == 0 && b[23] == unix.IPPROTO_IGMP:
		return "IGMP"
	case len(b) > 62 && b[12] == 0x86 && b[20] == 0 && b[62] == 143: // behind a hop-by-hop header
		return "MLD"
	case len(b) > 54 && b[12] == 0x86 && b[20] == unix.IPPROTO_ICMPV6 && b[54] == 133:
		return "RS"
	}
	return ""
}

// A switch must not learn a virtual MAC from membership reports or router solicitations: those of a silent link leave
// by its parent, and with the parent's address.
func TestReportsLeaveByTheParent(t *testing.T) {
	nft(t, "flush", "ruleset")
	ip(t, "link", "add", "par", "type", "veth", "peer", "name", "far")
	defer ip(t, "link", "del", "par")
	ip(t, "link", "set", "far", "up")
	ip(t, "link", "set", "par", "up")
	ip(t, "addr", "add", "10.9.0.1/24", "dev", "par")
	far := listen(t, "far")
	parent, err := net.InterfaceByName("par")
	must(t, err)
	const mac = "00:00:5e:00:01:33"
	up := func() {
		t.Helper()
		far.clear()
		ip(t, "link", "add", "vrrp.51", "link", "par", "address", mac, "type", "macvlan", "mode", "private")
		ip(t, "link", "set", "vrrp.51", "up")
		ip(t, "addr", "add", "239.1.1.1/32", "dev", "vrrp.51", "autojoin")
	}
	up()
	for _, kind := range []string{"IGMP", "MLD", "RS"} {
		eventually(t, kind+" from the virtual MAC when nothing forbids it", func() bool { return far.has(mac + " " + kind) })
	}
	ip(t, "link", "del", "vrrp.51")
	f := firewall.New(firewall.NFT{}, "/run/vipd", nil, nil)
	must(t, f.Silence([]firewall.Link{{Name: "vrrp.51", Parent: parent.Index}}))
	up()
	own := parent.HardwareAddr.String()
	for _, kind := range []string{"IGMP", "MLD"} {
		eventually(t, kind+" from the parent", func() bool { return far.has(own + " " + kind) })
	}
	time.Sleep(2 * time.Second) // the first solicitation comes within a second of the link-local address
	for _, kind := range []string{"IGMP", "MLD", "RS"} {
		if far.has(mac + " " + kind) {
			t.Errorf("%s left with the virtual MAC", kind)
		}
	}
	ip(t, "link", "del", "vrrp.51")
	must(t, f.Release())
}
