package check

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"vipd/cmd/internal/ipvsadvice"
	"vipd/conf"
)

// forwarding looks for services under NAT on a machine that does not forward packets: the
// answers of their servers come by it, and would end there.
func forwarding(cfg *conf.Config, root fs.FS) []string {
	var out []string
	for _, f := range []struct {
		setting string
		ipv6    bool
	}{{"net/ipv4/ip_forward", false}, {"net/ipv6/conf/all/forwarding", true}} {
		if sysctl(root, f.setting) != "0" {
			continue
		}
		var names []string
		for _, v := range cfg.VirtualServers {
			if slices.ContainsFunc(v.RealServers, func(r conf.RealServer) bool {
				return r.Method == "NAT" && r.Address.Addr().Is6() == f.ipv6 && !r.Address.Addr().IsLoopback()
			}) {
				names = append(names, v.Name)
			}
		}
		if len(names) > 0 {
			out = append(out, fmt.Sprintf("%s: under NAT the answers of its servers do not reach the clients while %s is 0; set it to 1", ipvsadvice.Some(names), strings.ReplaceAll(f.setting, "/", ".")))
		}
	}
	return out
}
