package host_test

import (
	"testing"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// A fault in whoever hears of the addresses ends Run. What was added can still be
// given up.
func TestReleaseAfterPanic(t *testing.T) {
	k := hosttest.New()
	k.NewLink("eth0")
	must(t, k.Add("eth0", foreign("10.9.0.11/24")))
	m := host.NewManager(k, k, "", host.Callbacks{Present: func(string, host.Address, *host.Link) { panic("a fault") }}, nil)
	m.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32")})
	s, err := k.State()
	must(t, err)
	m.State(s)
	m.Want("A", true)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Run went on")
			}
		}()
		must(t, m.Run(t.Context()))
	}()
	if !k.Has("eth0", pfx("10.9.0.100/32")) {
		t.Fatal("nothing was added: the test proves nothing")
	}
	must(t, m.Release())
	if k.Has("eth0", pfx("10.9.0.100/32")) || k.Has("eth0", pfx("10.9.0.101/32")) {
		t.Error("addresses stay")
	}
}
