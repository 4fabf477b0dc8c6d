package check

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"vipd/conf"
	"vipd/vrrp/firewall"
)

// refusals looks whether packets to addresses with no_accept can be refused here.
// try makes rules and removes them in one transaction, so that nothing changes.
func refusals(cfg *conf.Config, root fs.FS, try func(...firewall.Family) error) []string {
	var name string
	var needed []firewall.Family
	for i := range cfg.Instances {
		in := &cfg.Instances[i]
		if !in.NoAccept {
			continue
		}
		if name == "" {
			name = in.Name
		}
		families := []firewall.Family{map[bool]firewall.Family{false: firewall.IPv4, true: firewall.IPv6}[in.IPv6]}
		for _, v := range in.Excluded {
			families = append(families, firewall.On(v.Prefix.Addr(), "").Family())
		}
		for _, f := range families {
			if !slices.Contains(needed, f) { // each has one table, that can be made once
				needed = append(needed, f)
			}
		}
	}
	if name == "" {
		return nil
	}
	if _, err := fs.Stat(root, "sys/module/nf_tables"); err != nil && moduleKnown(root, "nf_tables") && !builtIn(root, "nf_tables") {
		return nil // trying would load it
	}
	err := try(needed...)
	if err == nil || errors.Is(err, fs.ErrPermission) { // without the rights nothing is known
		return nil
	}
	return []string{fmt.Sprintf("vrrp_instance.%s: no_accept is not possible here: %v; the instance stays in FAULT until it is: install a kernel with nftables, or take no_accept out", name, err)}
}

// tryRules is refusals' try for the kernel of this machine.
func tryRules(needed ...firewall.Family) error {
	return firewall.New(firewall.NFT{}, "vipd check", nil, nil).Configure(firewall.Options{Table: "vipd-check"}, needed...)
}
