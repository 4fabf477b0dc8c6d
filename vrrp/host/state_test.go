package host_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// The source of adverts is an address of the machine's own, never a virtual one (O26).
func TestSources(t *testing.T) {
	secondary := foreign("10.9.0.12/24")
	secondary.Secondary = true
	tentative := foreign("fe80::1/64")
	tentative.Tentative = true
	virtual := []string{"10.9.0.100", "fe80::100", "10.9.0.10"}
	vips := func(a netip.Addr) bool { return slices.Contains(virtual, a.String()) }
	for _, c := range []struct {
		name         string
		addrs        []host.Addr
		want4, want6 string
	}{
		{name: "nothing"},
		{name: "own", addrs: []host.Addr{foreign("10.9.0.11/24"), foreign("fe80::2/64")}, want4: "10.9.0.11", want6: "fe80::2"},
		{name: "virtual first", addrs: []host.Addr{foreign("10.9.0.100/32"), foreign("10.9.0.11/24"), foreign("fe80::100/64"), foreign("fe80::2/64")}, want4: "10.9.0.11", want6: "fe80::2"},
		{name: "virtual only", addrs: []host.Addr{foreign("10.9.0.100/32"), foreign("fe80::100/64")}},
		{name: "marked, of another vipd", addrs: []host.Addr{addr("10.9.0.200/32"), addr("fe80::200/64")}},
		{name: "secondary last", addrs: []host.Addr{secondary, foreign("10.8.0.1/32")}, want4: "10.8.0.1"},
		{name: "secondary of a virtual one", addrs: []host.Addr{foreign("10.9.0.10/24"), secondary}, want4: "10.9.0.12"},
		{name: "tentative", addrs: []host.Addr{tentative}},
		{name: "global IPv6 is no source", addrs: []host.Addr{foreign("2001:db8::1/64")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &host.Link{Addrs: c.addrs}
			for got, want := range map[netip.Addr]string{l.Source4(vips): c.want4, l.Source6(vips): c.want6} {
				if got.IsValid() != (want != "") || got.IsValid() && got.String() != want {
					t.Errorf("got %v, want %q", got, want)
				}
			}
		})
	}
	waiting := &host.Link{Addrs: []host.Addr{foreign("fe80::2/64"), addr("fe80::100/64"), tentative}}
	if a, failed := waiting.Tentative6(vips); a != netip.MustParseAddr("fe80::1") || failed {
		t.Errorf("in detection: %v, failed %v", a, failed)
	}
	waiting.Addrs[2].Flags |= unix.IFA_F_DADFAILED
	if a, failed := waiting.Tentative6(vips); a != netip.MustParseAddr("fe80::1") || !failed {
		t.Errorf("detection failed: %v, failed %v", a, failed)
	}
	if a, _ := (&host.Link{Addrs: []host.Addr{foreign("fe80::2/64")}}).Tentative6(vips); a.IsValid() {
		t.Errorf("%v is not in detection", a)
	}
	var none *host.Link
	if none.Source4(nil).IsValid() || none.Source6(nil).IsValid() || none.Usable() {
		t.Error("a missing interface is of use")
	}
}

func TestFaultNamesTheReason(t *testing.T) {
	up := host.Link{Up: true, Running: true}
	noCarrier, down := up, up
	noCarrier.Running, down.Up = false, false
	for want, l := range map[string]*host.Link{"": &up, "has no carrier": &noCarrier, "is down": &down, "does not exist": nil} {
		got := l.Fault("eth7")
		if l.Usable() != (want == "") || want != "" && got != "interface eth7 "+want {
			t.Errorf("fault %q, usable %v; want %q", got, l.Usable(), want)
		}
	}
}

// Snapshots are equal when nothing that matters differs, and only then.
func TestStateEqual(t *testing.T) {
	k := hosttest.New()
	k.NewLink("eth0")
	a := foreign("10.9.0.11/24")
	a.ValidLft, a.PreferredLft = 100, 100
	must(t, k.Add("eth0", a))
	first, err := k.State()
	must(t, err)
	for name, c := range map[string]struct {
		change func(*host.Link)
		equal  bool
	}{
		"nothing":    {func(*host.Link) {}, true},
		"lifetime":   {func(l *host.Link) { l.Addrs[1].ValidLft = 99 }, true},
		"other flag": {func(l *host.Link) { l.Flags ^= unix.IFF_PROMISC }, true},
		"up":         {func(l *host.Link) { l.Up = false }, false},
		"carrier":    {func(l *host.Link) { l.Running = false }, false},
		"MAC":        {func(l *host.Link) { l.MAC[5]++ }, false},
		"index":      {func(l *host.Link) { l.Index++ }, false},
		"forwarding": {func(l *host.Link) { l.Forwarding6 = true }, false},
		"address":    {func(l *host.Link) { l.Addrs = l.Addrs[:1] }, false},
		"mark":       {func(l *host.Link) { l.Addrs[1].Proto = host.Proto }, false},
	} {
		second, err := k.State()
		must(t, err)
		c.change(second.Link("eth0"))
		if first.Equal(second) != c.equal {
			t.Errorf("%s: equal %v, want %v", name, !c.equal, c.equal)
		}
	}
}

func TestKernelPrintsItself(t *testing.T) {
	k := hosttest.New()
	k.NewLink("eth0")
	must(t, k.Add("eth0", foreign("10.9.0.11/24")))
	must(t, k.Add("eth0", addr("10.10.0.1/32")))
	want := "ip addr add 10.10.0.1/32 dev eth0 proto 112\nip addr add 10.9.0.11/24 dev eth0\nip addr add fe80::ff:fe00:1/64 dev eth0 scope 253 proto 3\n"
	if got := k.String(); !strings.EqualFold(got, want) {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
