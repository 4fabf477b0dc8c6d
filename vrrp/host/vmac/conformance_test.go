package vmac_test

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/host/vmac/vmactest"
)

// machine is a kernel with an interface "conf0" that is up, and ways to change it by hand.
type machine struct {
	vmac.Kernel
	vmac.Settings
	down, up, unplug func()
}

// Both kernels, the one in memory and the real one, are alike in what the manager relies on.
func TestConformance(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		k := vmactest.New()
		k.Plug("conf0", [6]byte{2, 0, 0, 0, 0, 1})
		conform(t, machine{k, k,
			func() { k.Change("conf0", func(l *host.Link) { l.Up = false }) },
			func() { k.Change("conf0", func(l *host.Link) { l.Up = true }) },
			func() { k.Unplug("conf0") }})
	})
	t.Run("Linux", func(t *testing.T) {
		ip := func(words string) {
			t.Helper()
			if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", words, err, out)
			}
		}
		ip("link add conf0 type veth peer name conf1")
		ip("link set conf0 up")
		ip("link set conf1 up")
		reader, err := host.OpenNetlink()
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		k, err := vmac.OpenNetlink(reader)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		conform(t, machine{k, vmac.Sysctl{}, func() { ip("link set conf0 down") }, func() { ip("link set conf0 up") }, func() { ip("link del conf0") }})
	})
}

func conform(t *testing.T, k machine) {
	link := func(name string) *host.Link {
		t.Helper()
		s, err := k.State()
		if err != nil {
			t.Fatal(err)
		}
		return s.Link(name)
	}
	is := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	parent := link("conf0").Index
	l := vmac.Link{Name: "vm.1", Parent: "conf0", MAC: [6]byte{0, 0, 0x5e, 0, 1, 1}, Group: 4, Notify: true}
	index, err := k.Add(l, parent, "vipd /x")
	if err != nil {
		t.Fatal(err)
	}
	if got := link("vm.1"); got == nil || got.Index != index || got.Kind != "macvlan" || !got.Private || got.Parent != parent || got.MAC != l.MAC || got.Alias != "vipd /x" || got.Group != 4 || got.Up || got.MTU != 1500 {
		t.Errorf("made: %+v", got)
	}
	_, err = k.Add(l, parent, "")
	is("a second link of that name", err, unix.EEXIST)
	_, err = k.Add(vmac.Link{Name: "vm.2", MAC: [6]byte{2, 0, 0, 0, 0, 9}, Group: vmac.ParentGroup}, 99999, "")
	is("a link on nothing", err, unix.ENODEV)
	is("taking nothing up", k.Adjust(99999, 1500, 0), unix.ENODEV)
	is("removing nothing", k.Delete(99999), unix.ENODEV)
	is("taking it up", k.Adjust(index, 1400, 5), nil)
	if got := link("vm.1"); !got.Up || got.MTU != 1400 || got.Group != 5 {
		t.Errorf("taken up: %+v", got)
	}

	twin, err := k.Add(vmac.Link{Name: "vm.2", MAC: l.MAC, Group: vmac.ParentGroup}, parent, "")
	is("a link with the same MAC", err, nil)
	is("taking that one up, too", k.Adjust(twin, 1500, 0), unix.EADDRINUSE)
	is("removing it", k.Delete(twin), nil)
	k.down()
	third, err := k.Add(vmac.Link{Name: "vm.3", MAC: [6]byte{2, 0, 0, 0, 0, 9}, Group: vmac.ParentGroup}, parent, "")
	is("a link on an interface that is down", err, nil)
	is("taking it up all the same", k.Adjust(third, 1500, 0), nil)
	if got := link("vm.3"); !got.Up || got.Running {
		t.Errorf("on an interface that is down it is %+v", got)
	}
	k.up()

	path := "net/ipv4/conf/vm.1/arp_ignore"
	if v, err := k.Get(path); err != nil || v != "0" {
		t.Errorf("%s is %q, %v", path, v, err)
	}
	is("a setting", k.Set(path, "1"), nil)
	if v, _ := k.Get(path); v != "1" {
		t.Errorf("%s is %q after it was set to 1", path, v)
	}
	is("removing a link", k.Delete(index), nil)
	_, err = k.Get(path)
	is("its setting", err, fs.ErrNotExist)
	is("changing it", k.Set(path, "1"), fs.ErrNotExist)
	fourth, err := k.Add(vmac.Link{Name: "vm.4", MAC: [6]byte{2, 0, 0, 0, 0, 4}, Group: vmac.ParentGroup}, third, "")
	if got := link("vm.4"); err != nil || got == nil || got.Index != fourth || got.Parent != parent {
		t.Errorf("a link on such a link: %v, %+v, want it on %d", err, got, parent)
	}
	k.unplug()
	if link("vm.3") != nil {
		t.Error("a link stays when its parent goes")
	}
}
