package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// realServers settles the servers of a service.
func (b *builder) realServers(v *values, reals []*values, vs *VirtualServer) {
	first := make(map[netip.AddrPort]*values, len(reals))
	weights, unchecked := 0, []*values(nil)
	if len(reals) > 0 {
		vs.RealServers = make([]RealServer, len(reals)) // it may live long: not larger than it need be
	}
	for i, r := range reals {
		rs := &vs.RealServers[i]
		b.realServer(v, r, vs, rs)
		weights += rs.Weight
		if len(rs.Checks) == 0 && !checked(v) && !checked(r) {
			unchecked = append(unchecked, r)
		}
		if !r.has("address") {
			continue
		}
		old := first[rs.Address]
		if old == nil {
			old = vs.twin(rs.Address, first)
		}
		if old != nil {
			it, _ := old.place("address")
			b.say(Error, r, "address", "real_server.address/taken", fmt.Sprintf("%s is already a server of this service at %s", rs.Address, it.src.place(it.at)), "list a server once; give it a higher weight to send it more")
			continue
		}
		first[rs.Address] = r
	}
	if len(reals) == 0 && !v.given("real_server") {
		b.say(Warning, v, "", "virtual_server.real_server/none", "there is no real_server", "add [[virtual_server.real_server]] with its address")
	}
	if len(unchecked) > 0 {
		b.say(Warning, unchecked[0], "", "virtual_server.real_server/unchecked", plural(len(unchecked), "server")+" of this service without a check",
			"a dead server is not noticed and its share of the connections is lost; add TCP_CHECK = {} to the virtual_server")
	}
	if v.has("quorum") && len(reals) > 0 && weights < vs.Quorum {
		b.say(Warning, v, "quorum", "virtual_server.quorum/unreachable", fmt.Sprintf("%d cannot be reached: the weights of all servers add up to %d", vs.Quorum, weights), "the service will never be up; lower the quorum or raise the weights")
	} else if vs.Hysteresis > 0 && len(reals) > 0 && weights < vs.Quorum+vs.Hysteresis {
		b.say(Warning, v, "hysteresis", "virtual_server.hysteresis/unreachable", fmt.Sprintf("%d cannot be reached: the weights of all servers add up to %d", vs.Quorum+vs.Hysteresis, weights), "the service comes up at quorum + hysteresis, so it never will; lower one of them or raise the weights")
	}
}

// realServer settles a real_server with all defaults.
func (b *builder) realServer(v, r *values, vs *VirtualServer, rs *RealServer) {
	*rs = RealServer{
		Address:   get[netip.AddrPort](r, "address"),
		Method:    vs.Method,
		Tunnel:    vs.Tunnel,
		Weight:    inherit("weight", r, v).num("weight"),
		SlowStart: get[time.Duration](inherit("slow_start", r, v), "slow_start"),
		Alert:     b.alert(r, alertChecker, true),
		Up:        get[Command](inherit("notify_up", r, v), "notify_up"),
		Down:      get[Command](inherit("notify_down", r, v), "notify_down"),
	}
	rs.Inhibit, rs.DrainFailed = b.onFailure(r)
	if !r.given("on_failure") && !r.given("inhibit_on_failure") {
		rs.Inhibit, rs.DrainFailed = vs.Inhibit, vs.DrainFailed
	}
	if r.has("lvs_method") {
		own := get[forwarding](r, "lvs_method")
		rs.Method, rs.Tunnel = own.Method, own.Tunnel
	}
	b.limits(r, rs)
	if !r.has("address") {
		return
	}
	rs.Address = b.reach(r, "address", "real_server.address", rs.Address, rs.Method, vs)
	if slices.ContainsFunc(vs.Services(), func(s Service) bool { return s.Address.Addr() == rs.Address.Addr() }) {
		b.say(Warning, r, "address", "real_server.address/vip", rs.Address.Addr().String()+" is the address of the service itself", "packets would come back to this director; write the server's own address")
	}
	from := r
	if !checked(r) {
		from = v
	}
	for i := range checkKinds {
		kind := &checkKinds[i]
		for _, c := range get[[]*values](from, kind.name) {
			b.checks(kind, c, r, v, rs)
		}
	}
}
