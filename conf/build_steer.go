package conf

import (
	"fmt"
	"slices"
)

// steering settles when a service is up, who hears of it and where it is active.
func (b *builder) steering(v *values, vs *VirtualServer) {
	vs.Hysteresis = v.num("hysteresis")
	if vs.Hysteresis >= vs.Quorum && !v.wrong("quorum") && !v.wrong("hysteresis") {
		b.say(Error, v, "hysteresis", "virtual_server.hysteresis/quorum", fmt.Sprintf("%d is not below the quorum, %d", vs.Hysteresis, vs.Quorum),
			fmt.Sprintf("the quorum could not be lost before the last server is; write at most %d (as keepalived takes it), or raise the quorum", vs.Quorum-1))
		vs.Hysteresis = 0
	}
	vs.Up, vs.Down = get[Command](v, "quorum_up"), get[Command](v, "quorum_down")
	vs.Omega = get[bool](v, "omega")
	vs.HASuspend = get[bool](v, "ha_suspend")
	if addressless := !slices.ContainsFunc(vs.Services(), func(s Service) bool { return s.Address.IsValid() }); vs.HASuspend && (v.given("fwmark") || vs.Group != "" && addressless) {
		vs.HASuspend = false
		b.say(Warning, v, "ha_suspend", "virtual_server.ha_suspend/fwmark", "has no effect for a fwmark, which has no address that could be away", "take it out: its checks always run")
	}
	b.activeOn(v, vs)
}

// activeOn settles which instance must be MASTER.
func (b *builder) activeOn(v *values, vs *VirtualServer) {
	name := get[string](v, "active_instance")
	if get[string](v, "active_on") != "master" {
		if name != "" && !v.given("active_on") {
			b.say(Warning, v, "active_instance", "virtual_server.active_instance/unused", "has no effect without active_on", `add active_on = "master", or take it out`)
		}
		return
	}
	switch owner := b.ownerOf(vs); {
	case name != "":
		if !slices.ContainsFunc(b.config.Instances, func(i Instance) bool { return i.Name == name }) && !b.unclear {
			b.say(Error, v, "active_instance", "virtual_server.active_instance/unknown", fmt.Sprintf("there is no vrrp_instance %q", name)+didYouMean(name, each(b.config.Instances, instanceName)), "name the instance that the service follows")
			return
		}
		vs.ActiveOn = name
	case owner != "":
		vs.ActiveOn = owner
	case !b.unclear && !b.vague && !v.wrong("address") && !v.wrong("active_instance"):
		b.say(Error, v, "active_on", "virtual_server.active_on/instance", "there is no vrrp_instance with the address of this service", `add the address to virtual_ipaddress, or name the instance with active_instance = "NAME"`)
	}
}

// ownerOf returns the instance that has all addresses of a service, or "".
func (b *builder) ownerOf(vs *VirtualServer) string {
	owner := ""
	for _, s := range vs.Services() {
		if s.FWMark != 0 {
			continue
		}
		c, ours := b.vips[s.Address.Addr()]
		if !ours || owner != "" && owner != c.instance {
			return ""
		}
		owner = c.instance
	}
	return owner
}

// instanceName returns the name of an instance.
func instanceName(i Instance) string { return i.Name }
