package daemon

import (
	"context"
	"fmt"
	"slices"

	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/vrrp/firewall"
	"vipd/vrrp/host"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/router"
)

// vmacName is the link with the virtual MAC of an instance, "" for none.
func vmacName(c *conf.Instance) string {
	if own := c.OwnVMAC(); own != nil {
		return own.Name
	}
	return ""
}

// vmacLinks are all links with a virtual MAC that a configuration asks for.
func vmacLinks(cfg *conf.Config) []vmac.Link {
	var out []vmac.Link
	for i := range cfg.Instances {
		for _, l := range cfg.Instances[i].VMACs {
			out = append(out, vmac.Link{Name: l.Name, Parent: l.Parent, MAC: l.MAC, Group: l.Group, Notify: l.Notify, IPv4: l.IPv4, IPv6: l.IPv6})
		}
	}
	return out
}

// makeVMACs makes the links that a configuration asks for, and has everybody know of them before it is told of the
// instances: one that finds its link missing would be in FAULT.
func (d *Daemon) makeVMACs(work context.Context, cfg *conf.Config) error {
	links := vmacLinks(cfg)
	if d.vmacs.Replaces(links) {
		// The last advert of those whose link is made anew leaves by the old one.
		if err := d.router.Leave(work, routerInstances(cfg)); err != nil {
			return err
		}
	}
	d.vmacs.Configure(links, cfg.Global.DisableLocalIGMP)
	d.feed.SetVMACs(links)
	if len(links) == 0 {
		return nil
	}
	if s, err := d.netlink.State(); err == nil { // else the watcher brings it
		d.feed.Snapshot(s)
	}
	return nil
}

// silence keeps reports and solicitations of links off the network. One whose parent is missing is not there either.
func (d *Daemon) silence(parents map[string]int) error {
	var links []firewall.Link
	for name, parent := range parents {
		if parent != 0 {
			links = append(links, firewall.Link{Name: name, Parent: parent})
		}
	}
	return d.firewall.Silence(links)
}

// SetVMACs tells which links with a virtual MAC are wanted.
func (f *feed) SetVMACs(links []vmac.Link) {
	parents := make(map[string]string, len(links))
	for _, l := range links {
		parents[l.Name] = l.Parent
	}
	f.parents.Store(&parents)
}

// vmac reports whether a link is one of ours with a virtual MAC.
func (f *feed) vmac(name string) bool {
	parents := f.parents.Load()
	return parents != nil && (*parents)[name] != ""
}

// vmacLinks completes what routers are told of links with a virtual MAC.
func (f *feed) vmacLinks(links map[string]router.Link) {
	parents := f.parents.Load()
	if parents == nil || len(*parents) == 0 {
		return
	}
	problems := f.vmacs.Problems()
	for name, parent := range *parents {
		l, ok := links[name]
		l.Parent, l.Problem = parent, problems[name]
		if ok || l.Problem != "" {
			links[name] = l
		}
	}
}

// vmacStatus completes the status of instances with their links.
func (d *Daemon) vmacStatus(s *status.Status, cfg *conf.Config) {
	problems := d.vmacs.Problems()
	for i := range s.Instances {
		n := slices.IndexFunc(cfg.Instances, func(c conf.Instance) bool { return c.Name == s.Instances[i].Name })
		if n < 0 {
			continue // a reload is under way
		}
		for _, l := range cfg.Instances[n].VMACs {
			out := status.VMAC{Link: l.Name, Parent: l.Parent, MAC: l.MAC.String(), Error: problems[l.Name]}
			if now := d.feed.State(); now != nil && out.Error == "" {
				link := now.Link(l.Name)
				out.Present = link.Usable() && link.MAC == l.MAC
			}
			if out.Error != "" {
				s.Alarms = append(s.Alarms, fmt.Sprintf("%s: the virtual-MAC link %s is not there: %s", s.Instances[i].Name, l.Name, out.Error))
			}
			s.Instances[i].VMACs = append(s.Instances[i].VMACs, out)
		}
	}
}

// base is the interface that paces the announcements of a link with a virtual MAC, "" for other links.
func base(s host.State, l *host.Link) string {
	if l.Kind != "macvlan" || l.Parent == 0 {
		return ""
	}
	if p := s.ByIndex(l.Parent); p != nil {
		return p.Name
	}
	return ""
}
