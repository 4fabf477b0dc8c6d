package check

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"vipd/conf"
)

// TestNamespace: interfaces are looked for where vipd will run, and a namespace that
// is not there is all that is said of them.
func TestNamespace(t *testing.T) {
	name := fmt.Sprintf("vipd%d-check", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s (run the tests as root, with iproute2)", strings.Join(args, " "), err, out)
		}
	}
	ip("netns", "add", name)
	t.Cleanup(func() { ip("netns", "del", name) })
	ip("-n", name, "link", "add", "only-here", "type", "veth", "peer", "name", "other")
	ip("-n", name, "addr", "add", "10.9.0.1/24", "dev", "only-here")
	cfg := &conf.Config{Instances: []conf.Instance{{Name: "VI_1", Interface: "only-here"}}}
	for place, want := range map[conf.Place]string{
		{Namespace: name}:          "",
		{}:                         "vrrp_instance.VI_1: interface only-here does not exist here",
		{IPVS: name}:               "vrrp_instance.VI_1: interface only-here does not exist here",
		{Namespace: name + "-not"}: `net_namespace: there is no network namespace "` + name + `-not"`,
	} {
		cfg.Place = place
		got := Machine(cfg)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%+v: %q, want %q", place, got, want)
		}
	}

	// The kernel's settings are those of there, too.
	ip("netns", "exec", name, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=8")
	cfg.Instances[0].VMACs = []conf.VMAC{{Name: "vrrp.51", Parent: "only-here", MAC: conf.VirtualMAC(51, false)}}
	for place, want := range map[conf.Place]bool{{Namespace: name}: true, {}: false} {
		cfg.Place = place
		if got := strings.Join(Machine(cfg), "\n"); strings.Contains(got, "net.ipv4.conf.all.arp_ignore is 8") != want {
			t.Errorf("%+v: a word about arp_ignore: %v expected\n%s", place, want, got)
		}
	}
}
