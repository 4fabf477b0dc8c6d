package vmac_test

import (
	"fmt"
	"testing"

	"vipd/vrrp/host/vmac"
	"vipd/vrrp/host/vmac/vmactest"
)

// A killed vipd leaves links and settings; the next one removes them whatever its configuration is, also when it was
// killed between any two writes. Settings of an interface that was made anew are not touched.
func TestCrashIsSweptAtAnyPoint(t *testing.T) {
	all := func() int {
		k := site()
		manager(t, k).Configure([]vmac.Link{v4, on}, true)
		return len(k.Writes())
	}()
	for n := range all {
		k, dir := site(), t.TempDir()
		func() {
			defer func() { _ = recover() }()
			vmac.NewManager(k, &dying{k, n}, dir, nil, nil, nil).Configure([]vmac.Link{v4, on}, true)
		}()
		m := vmac.NewManager(k, k, dir, nil, nil, nil)
		if _, err := m.Sweep(); err != nil {
			t.Fatal(err)
		}
		want(t, k, fmt.Sprintf("killed after %d settings and swept", n), bare)
	}

	k, dir := site(), t.TempDir()
	vmac.NewManager(k, k, dir, nil, nil, nil).Configure([]vmac.Link{v4}, false)
	k.Unplug("eth0")
	k.Plug("eth0", [6]byte{2, 0, 0, 0, 0, 1})
	if err := k.Set("net/ipv4/conf/eth0/arp_announce", "2"); err != nil { // the operator's own
		t.Fatal(err)
	}
	found, err := vmac.NewManager(k, k, dir, nil, nil, nil).Sweep()
	if got, _ := k.Get("net/ipv4/conf/eth0/arp_announce"); err != nil || got != "2" || len(found) > 0 {
		t.Errorf("a new interface was touched: %s, %q, %v", got, found, err)
	}
}

// dying panics instead of a setting.
type dying struct {
	*vmactest.Kernel
	left int
}

func (d *dying) Set(path, value string) error {
	if d.left--; d.left < 0 {
		panic("killed")
	}
	return d.Kernel.Set(path, value)
}
