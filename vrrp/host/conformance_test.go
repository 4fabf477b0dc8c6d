package host_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// bench is a kernel and the hands to change it behind the manager's back.
type bench interface {
	host.Kernel
	host.Tables
	AddAddress(index int, a host.Addr) error
	DelAddress(index int, a host.Addr) error
	newLink(t *testing.T, name string)
	removeLink(t *testing.T, name string)
	setUp(t *testing.T, name string, up bool)
	setPromote(t *testing.T, name string, on bool)
}

type fakeBench struct{ *hosttest.Kernel }

func (b fakeBench) newLink(_ *testing.T, name string)    { b.NewLink(name) }
func (b fakeBench) removeLink(_ *testing.T, name string) { b.RemoveLink(name) }
func (b fakeBench) setUp(t *testing.T, name string, up bool) {
	t.Helper()
	must(t, b.SetLink(name, up, true))
}
func (b fakeBench) setPromote(t *testing.T, name string, on bool) {
	t.Helper()
	must(t, b.SetPromote(name, on))
}

type realBench struct{ *host.Netlink }

func newReal(t *testing.T) realBench {
	t.Helper()
	n, err := host.OpenNetlink()
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	return realBench{n}
}

func (b realBench) newLink(t *testing.T, name string) {
	t.Helper()
	ip(t, "link", "add", name, "type", "veth", "peer", "name", name+"p")
	ip(t, "link", "set", name+"p", "up")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", name).Run() })
	sysctl(t, "net/ipv6/conf/"+name+"/accept_dad", "0") // its link-local address at once
	b.setPromote(t, name, false)
	ip(t, "link", "set", name, "up")
}

func (b realBench) removeLink(t *testing.T, name string) { t.Helper(); ip(t, "link", "del", name) }

func (b realBench) setUp(t *testing.T, name string, up bool) {
	t.Helper()
	ip(t, "link", "set", name, map[bool]string{true: "up", false: "down"}[up])
}

func (b realBench) setPromote(t *testing.T, name string, on bool) {
	t.Helper()
	sysctl(t, "net/ipv4/conf/"+name+"/promote_secondaries", map[bool]string{true: "1", false: "0"}[on])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func sysctl(t *testing.T, key, value string) {
	t.Helper()
	must(t, os.WriteFile("/proc/sys/"+key, []byte(value), 0o644))
}

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addr(s string) host.Addr {
	a := host.Addr{Prefix: pfx(s), ValidLft: ^uint32(0), PreferredLft: ^uint32(0), Proto: host.Proto}
	if a.Prefix.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// dump prints the addresses of an interface in the kernel's order, without link-local ones.
func dump(t *testing.T, k host.Kernel, dev string) string {
	t.Helper()
	s, err := k.State()
	must(t, err)
	l := s.Link(dev)
	if l == nil {
		return "no " + dev
	}
	var lines []string
	for _, a := range l.Addrs {
		line := strings.TrimSpace(hosttest.Line(dev, a))
		if a.Secondary {
			line += " secondary"
		}
		if a.Deprecated {
			line += " deprecated"
		}
		if !a.Prefix.Addr().IsLinkLocalUnicast() {
			lines = append(lines, strings.TrimPrefix(line, "ip addr add "))
		}
	}
	return strings.Join(lines, "\n")
}

// TestKernelConformance holds the in-memory kernel against the real one.
func TestKernelConformance(t *testing.T) {
	benches := map[string]func(*testing.T) bench{
		"memory": func(*testing.T) bench { return fakeBench{hosttest.New()} },
		"linux":  func(t *testing.T) bench { return newReal(t) },
	}
	cases := map[string]func(*testing.T, bench){
		"errors":      conformErrors,
		"batch":       conformBatch,
		"secondaries": conformSecondaries,
		"promotion":   conformPromotion,
		"properties":  conformProperties,
		"link down":   conformLinkDown,
		"re-created":  conformRecreated,
	}
	for kind, open := range benches {
		for name, test := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) { test(t, open(t)) })
		}
	}
}

func index(t *testing.T, k host.Kernel, dev string) int {
	t.Helper()
	s, err := k.State()
	must(t, err)
	l := s.Link(dev)
	if l == nil {
		t.Fatalf("no interface %s", dev)
	}
	return l.Index
}

func wantErr(t *testing.T, got error, want unix.Errno, what string) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func conformErrors(t *testing.T, b bench) {
	b.newLink(t, "tst0")
	i := index(t, b, "tst0")
	for _, p := range []string{"10.1.0.1/24", "2001:db8:1::1/64"} {
		wantErr(t, b.DelAddress(i, addr(p)), unix.EADDRNOTAVAIL, "removing a missing "+p)
		must(t, b.AddAddress(i, addr(p)))
		wantErr(t, b.AddAddress(i, addr(p)), unix.EEXIST, "adding a second "+p)
		longer := netip.PrefixFrom(pfx(p).Addr(), pfx(p).Addr().BitLen())
		wantErr(t, b.DelAddress(i, host.Addr{Prefix: longer}), unix.EADDRNOTAVAIL, "removing with another prefix length than "+p)
		wantErr(t, b.AddAddress(i+1000, addr(p)), unix.ENODEV, "adding to a missing interface")
		wantErr(t, b.DelAddress(i+1000, addr(p)), unix.ENODEV, "removing from a missing interface")
	}
	must(t, b.AddAddress(i, addr("10.1.0.1/32")))
	wantErr(t, b.AddAddress(i, addr("2001:db8:1::1/128")), unix.EEXIST, "an IPv6 address with another length")
	bad := addr("2001:db8:1::2/128")
	bad.ValidLft = 0
	wantErr(t, b.AddAddress(i, bad), unix.EINVAL, "an address with no lifetime")
}

func conformSecondaries(t *testing.T, b bench) {
	b.newLink(t, "tst0")
	i := index(t, b, "tst0")
	for _, p := range []string{"10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/24", "10.1.0.4/32", "10.2.0.1/24"} {
		must(t, b.AddAddress(i, addr(p)))
	}
	other := addr("10.1.0.5/24")
	other.Scope = unix.RT_SCOPE_LINK
	wantErr(t, b.AddAddress(i, other), unix.EINVAL, "a secondary with another scope")
	expect(t, dump(t, b, "tst0"), `10.1.0.1/24 dev tst0 proto 112
10.1.0.4/32 dev tst0 proto 112
10.2.0.1/24 dev tst0 proto 112
10.1.0.2/24 dev tst0 proto 112 secondary
10.1.0.3/24 dev tst0 proto 112 secondary`)
	must(t, b.DelAddress(i, addr("10.1.0.2/24")))
	must(t, b.DelAddress(i, addr("10.1.0.1/24")))
	expect(t, dump(t, b, "tst0"), "10.1.0.4/32 dev tst0 proto 112\n10.2.0.1/24 dev tst0 proto 112")
}

func conformPromotion(t *testing.T, b bench) {
	b.newLink(t, "tst0")
	b.setPromote(t, "tst0", true)
	i := index(t, b, "tst0")
	for _, p := range []string{"10.1.0.1/24", "10.1.0.2/24", "10.1.0.3/24"} {
		must(t, b.AddAddress(i, addr(p)))
	}
	must(t, b.DelAddress(i, addr("10.1.0.1/24")))
	expect(t, dump(t, b, "tst0"), "10.1.0.2/24 dev tst0 proto 112\n10.1.0.3/24 dev tst0 proto 112 secondary")
}

func conformProperties(t *testing.T, b bench) {
	b.newLink(t, "tst0")
	i := index(t, b, "tst0")
	a := addr("10.1.0.1/24")
	a.Broadcast, a.Label, a.Scope, a.Flags = netip.MustParseAddr("10.1.0.255"), "tst0:1", unix.RT_SCOPE_LINK, unix.IFA_F_NOPREFIXROUTE
	must(t, b.AddAddress(i, a))
	six := addr("2001:db8:1::1/128")
	six.PreferredLft, six.Scope = 0, unix.RT_SCOPE_HOST
	must(t, b.AddAddress(i, six))
	expect(t, dump(t, b, "tst0"), `10.1.0.1/24 dev tst0 brd 10.1.0.255 label tst0:1 scope 253 noprefixroute proto 112
2001:db8:1::1/128 dev tst0 preferred_lft 0 nodad proto 112 deprecated`)
	s, err := b.State()
	must(t, err)
	for _, a := range s.Link("tst0").Addrs {
		if a.ValidLft != ^uint32(0) || a.Tentative && a.Proto == host.Proto { // the link's own may be, for a moment
			t.Errorf("%s: valid for %d s, tentative %v; want for ever, not tentative", a.Prefix, a.ValidLft, a.Tentative)
		}
	}
}

func conformLinkDown(t *testing.T, b bench) {
	b.newLink(t, "tst0")
	i := index(t, b, "tst0")
	must(t, b.AddAddress(i, addr("10.1.0.1/32")))
	must(t, b.AddAddress(i, addr("2001:db8:1::1/128")))
	b.setUp(t, "tst0", false)
	expect(t, dump(t, b, "tst0"), "10.1.0.1/32 dev tst0 proto 112")
	s, err := b.State()
	must(t, err)
	if l := s.Link("tst0"); l.Usable() || l.Up || !strings.Contains(l.Fault("tst0"), "is down") {
		t.Errorf("a link set down shows %+v", l)
	}
	must(t, b.AddAddress(i, addr("10.1.0.2/32")))
	must(t, b.AddAddress(i, addr("2001:db8:1::2/128")))
	b.setUp(t, "tst0", true)
	expect(t, dump(t, b, "tst0"), `10.1.0.1/32 dev tst0 proto 112
10.1.0.2/32 dev tst0 proto 112
2001:db8:1::2/128 dev tst0 nodad proto 112`)
	eventually(t, "a link set up is usable", func() bool {
		s, err := b.State()
		must(t, err)
		l := s.Link("tst0")
		return l.Usable() && l.Source6(nil).IsValid()
	})
}

func conformRecreated(t *testing.T, b bench) {
	b.newLink(t, "tst0")
	old := index(t, b, "tst0")
	must(t, b.AddAddress(old, addr("10.1.0.1/32")))
	b.removeLink(t, "tst0")
	expect(t, dump(t, b, "tst0"), "no tst0")
	b.newLink(t, "tst0")
	if index(t, b, "tst0") == old {
		t.Error("the new interface has the old one's index")
	}
	expect(t, dump(t, b, "tst0"), "")
	wantErr(t, b.DelAddress(old, addr("10.1.0.1/32")), unix.ENODEV, "removing from the old interface")
}

// eventually waits up to 5 s, without a break of more than 1 ms between two looks.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
