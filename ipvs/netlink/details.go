package netlink

import "vipd/ipvs"

// smallTable is the number of servers up to which a look asks the kernel about each of them.
const smallTable = 200

// sameDetails compares what /proc/net/ip_vs leaves out: flags and persistence engines of services, limits and tunnels of
// servers, these in pools that have such or in a small table.
func (c *Conn) sameDetails(t ipvs.Table) (bool, error) {
	services, err := c.services()
	if err != nil {
		return false, err
	}
	found, servers := 0, 0
	for _, s := range services {
		p, ours := t[s.Key]
		switch {
		case !ours:
			continue
		case p.Service != s:
			return false, nil
		}
		found++
		servers += len(p.Destinations)
	}
	if found < len(t) {
		return false, nil
	}
	for _, p := range t {
		if servers > smallTable && !detailed(p) {
			continue
		}
		if same, err := c.sameServers(p); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// sameServers asks the kernel about every server of a pool.
func (c *Conn) sameServers(p ipvs.Pool) (bool, error) {
	dests, err := c.destinations(p.Service)
	if err != nil {
		return false, err
	}
	for _, d := range dests {
		have := fromDestination(d.Destination)
		if want, ok := p.Destinations[have.Address]; !ok || want != have {
			return false, nil
		}
	}
	return len(dests) == len(p.Destinations), nil
}

// detailed reports whether a pool has servers with limits or with tunnels other than plain ones.
func detailed(p ipvs.Pool) bool {
	for _, d := range p.Destinations {
		if d.Upper != 0 || d.Lower != 0 || d.Tunnel != (ipvs.Tunnel{}) {
			return true
		}
	}
	return false
}
