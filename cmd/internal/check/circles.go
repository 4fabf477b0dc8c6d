package check

import (
	"fmt"

	"vipd/conf"
	"vipd/vrrp/host"
)

// circles looks for services whose real servers are directors, too: this machine is one of them. Where both directors
// balance, packets between them go in circles.
func circles(cfg *conf.Config, state host.State) []string {
	var out []string
	for _, v := range cfg.VirtualServers {
		if v.ActiveOn != "" || len(cfg.Instances) == 0 {
			continue
		}
		for _, r := range v.RealServers {
			if r.Method == "NAT" || !onHost(state, r.Address.Addr()) {
				continue
			}
			out = append(out, fmt.Sprintf("virtual_server %s: real_server %s is this machine: a director that is sent packets as a real server balances them again, and they go in circles; write active_on = \"master\", or run a sync daemon with net.ipv4.vs.backup_only = 1", v.Name, r.Address))
			break
		}
	}
	return out
}
