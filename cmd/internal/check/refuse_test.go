package check

import (
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"vipd/conf"
	"vipd/vrrp/firewall"
)

// TestRefusalsOfMany: several instances, and addresses of both families, are one trial
// of each family; the kernel of this machine is well with that.
func TestRefusalsOfMany(t *testing.T) {
	many := func(names ...string) *conf.Config {
		cfg := &conf.Config{}
		for _, name := range names {
			cfg.Instances = append(cfg.Instances, conf.Instance{Name: name, NoAccept: true, Excluded: []conf.VIP{{Prefix: netip.MustParsePrefix("2001:db8::1/128")}}})
		}
		return cfg
	}
	var tried []firewall.Family
	try := func(f ...firewall.Family) error {
		tried = f
		return tryRules(f...)
	}
	if got := refusals(many("A", "B", "C"), fstest.MapFS{}, try); got != nil || !slices.Equal(tried, []firewall.Family{firewall.IPv4, firewall.IPv6}) {
		t.Errorf("tried %v, says %q", tried, got)
	}
}

// TestRefusals: rules are tried only where that loads nothing, and only for
// instances that need them.
func TestRefusals(t *testing.T) {
	dir := "lib/modules/" + release() + "/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	loadable := fstest.MapFS{dir + "modules.dep": file("kernel/net/netfilter/nf_tables.ko.xz:\n")}
	inside := fstest.MapFS{dir + "modules.dep": file("x.ko:\n"), dir + "modules.builtin": file("kernel/net/netfilter/nf_tables.ko\n")}
	loaded := fstest.MapFS{dir + "modules.dep": loadable[dir+"modules.dep"], "sys/module/nf_tables/x": file("")}
	absent := fstest.MapFS{dir + "modules.dep": file("kernel/net/dummy.ko:\n")}
	unsupported := fmt.Errorf("trying: %w", firewall.ErrUnsupported)
	for name, c := range map[string]struct {
		root      fstest.MapFS
		noAccept  bool
		err       error
		tried     bool
		complains string
	}{
		"not needed":      {absent, false, unsupported, false, ""},
		"loadable":        {loadable, true, unsupported, false, ""},
		"loaded, works":   {loaded, true, nil, true, ""},
		"built in, works": {inside, true, nil, true, ""},
		"absent":          {absent, true, unsupported, true, "install a kernel with nftables"},
		"not known":       {fstest.MapFS{}, true, nil, true, ""},
		"no rights":       {loaded, true, fmt.Errorf("trying: %w", fs.ErrPermission), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tried := false
			got := refusals(&conf.Config{Instances: []conf.Instance{{Name: "VI_1", NoAccept: c.noAccept, IPv6: true}}}, c.root, func(f ...firewall.Family) error {
				tried = true
				if len(f) != 1 || f[0] != firewall.IPv6 {
					t.Errorf("families %v", f)
				}
				return c.err
			})
			if tried != c.tried || (c.complains == "") != (got == nil) || got != nil && !strings.Contains(got[0], c.complains) {
				t.Errorf("tried %v, says %q", tried, got)
			}
		})
	}
}
