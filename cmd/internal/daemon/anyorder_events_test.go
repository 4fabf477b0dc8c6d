package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"vipd/cmd/internal/control"
	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
)

// anyOrderKeys are the services that may be configured, and another's.
func anyOrderKeys() []ipvs.Key {
	return []ipvs.Key{
		ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")),
		ipvs.AddressKey(ipvs.UDP, netip.MustParseAddrPort("10.9.0.100:80")),
		ipvs.MarkKey(9, false),
		ipvs.MarkKey(7, false),
	}
}

func isForeign(k ipvs.Key) bool { return k == anyOrderKeys()[3] }

// keyOf is the service of a virtual server.
func keyOf(v *conf.VirtualServer) ipvs.Key {
	switch {
	case v.FWMark != 0:
		return ipvs.MarkKey(v.FWMark, false)
	case v.Protocol == "UDP":
		return ipvs.AddressKey(ipvs.UDP, v.Address)
	}
	return ipvs.AddressKey(ipvs.TCP, v.Address)
}

func anyServer(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 1, byte(n)}), 80)
}

// result is one result of a check.
func (w *world) result() string {
	keys := w.checks.keys()
	if len(keys) == 0 {
		return "no check"
	}
	key := keys[w.IntN(len(keys))]
	st := run.Status{Known: true, Healthy: w.IntN(2) == 0}
	if w.IntN(8) == 0 {
		st.Weighting = healthcheck.Weighting{Set: w.IntN(2) == 0, N: w.IntN(4)}
	}
	w.checks.states[key] = st
	w.sick[key] = !st.Healthy
	w.b.HealthChanged()
	return fmt.Sprintf("%s healthy %v weight %v", key, st.Healthy, st.Weighting)
}

// order gives a command.
func (w *world) order() string {
	o := control.Order{
		Action: []control.Action{control.Drain, control.Undrain, control.Weight, control.Maintenance}[w.IntN(4)],
		Server: anyServer(1 + w.IntN(5)).String(), By: "root", On: w.IntN(2) == 0,
	}
	if w.IntN(2) == 0 {
		limit := []time.Duration{0, 5 * time.Second, 20 * time.Second}[w.IntN(3)]
		o.Max = &limit
	}
	if w.IntN(3) > 0 {
		weight := []int{0, 1, 7, 50}[w.IntN(4)]
		o.Weight = &weight
	}
	if len(w.servers) > 0 && w.IntN(2) == 0 {
		o.Service = w.servers[w.IntN(len(w.servers))].Name
	}
	text, err := w.b.Order(o)
	return fmt.Sprintf("%s %s %s on %v max %v: %q, %v", o.Action, o.Server, o.Service, o.On, o.Max, text, err)
}

// reload changes the configuration in some ways.
func (w *world) reload() string {
	what := "reload:"
	for range 1 + w.IntN(3) {
		what += " " + w.edit()
	}
	for i := range w.servers {
		v := &w.servers[i]
		what += fmt.Sprintf("\n  %s quorum %d±%d sorry %v min_up %v drain_max %v active %q suspend %v", v.Name, v.Quorum, v.Hysteresis, v.Sorry, v.MinUp, v.DrainMax, v.ActiveOn, v.HASuspend)
		for _, r := range v.RealServers {
			alpha := len(r.Checks) > 0 && r.Checks[0].Alpha
			what += fmt.Sprintf("\n    %s %s weight %d inhibit %v drain %v slow %v alpha %v checks %d", r.Address, r.Method, r.Weight, r.Inhibit, r.DrainFailed, r.SlowStart, alpha, len(r.Checks))
		}
	}
	return what
}

// edit changes the configuration in one way.
func (w *world) edit() string {
	if len(w.servers) == 0 || len(w.servers) < 3 && w.IntN(6) == 0 {
		return w.addService()
	}
	i := w.IntN(len(w.servers))
	v := &w.servers[i]
	switch w.IntN(8) {
	case 0:
		if w.IntN(3) == 0 {
			for range v.RealServers {
				w.removeServer(v, 0)
			}
			w.servers = slices.Delete(w.servers, i, i+1)
			return "service removed"
		}
		fallthrough
	case 1, 2:
		return w.addServer(v)
	case 3, 4:
		if n := len(v.RealServers); n > 0 {
			return w.removeServer(v, w.IntN(n))
		}
	case 5:
		if n := len(v.RealServers); n > 0 { // it moves to another service
			r := v.RealServers[w.IntN(n)]
			to := &w.servers[w.IntN(len(w.servers))]
			if !has(to, r.Address) {
				to.RealServers = append(to.RealServers, r)
				delete(w.gone, ipvs.Target{Service: keyOf(to), Destination: r.Address})
				return "server moved, " + w.removeServer(v, slices.IndexFunc(v.RealServers, func(x conf.RealServer) bool { return x.Address == r.Address }))
			}
		}
	case 6:
		if n := len(v.RealServers); n > 0 {
			w.policies(&v.RealServers[w.IntN(n)])
			return "server edited"
		}
	}
	w.attributes(v)
	return "service edited"
}

func (w *world) addService() string {
	v := conf.VirtualServer{Protocol: "TCP", Address: netip.MustParseAddrPort("10.9.0.100:80"), Method: "DR"}
	switch w.IntN(3) {
	case 0:
		v.Protocol = "UDP"
	case 1:
		v.Protocol, v.Address, v.FWMark = "", netip.AddrPort{}, 9
	}
	v.Name = keyOf(&v).String()
	if slices.ContainsFunc(w.servers, func(o conf.VirtualServer) bool { return o.Name == v.Name }) {
		return "nothing"
	}
	w.attributes(&v)
	for range 1 + w.IntN(4) {
		w.addServer(&v)
	}
	w.servers = append(w.servers, v)
	return "service added"
}

func (w *world) attributes(v *conf.VirtualServer) {
	v.Scheduler = []string{"rr", "wlc", "sed"}[w.IntN(3)]
	v.Persistence = []time.Duration{0, time.Minute}[w.IntN(2)]
	v.Quorum = 1 + w.IntN(4)
	v.Hysteresis = w.IntN(v.Quorum)
	v.MinUp = []float64{0, 0, 0.34, 0.5, 1}[w.IntN(5)]
	v.DrainMax = []time.Duration{0, 20 * time.Second}[w.IntN(2)]
	if v.Sorry != nil { // since when it leaves, is not known here
		w.gone[ipvs.Target{Service: keyOf(v), Destination: v.Sorry.Address}] = time.Time{}
	}
	v.Sorry, v.ActiveOn = nil, ""
	if w.IntN(2) == 0 {
		v.Sorry = &conf.Sorry{Address: anyServer(1 + w.IntN(7)), Method: []string{"DR", "NAT"}[w.IntN(2)], Inhibit: w.IntN(3) == 0}
	}
	if w.IntN(3) == 0 {
		v.ActiveOn = "VI_1"
	}
	v.HASuspend = v.FWMark == 0 && w.IntN(4) == 0
}

func (w *world) addServer(v *conf.VirtualServer) string {
	r := conf.RealServer{Address: anyServer(1 + w.IntN(5)), Method: "DR", Weight: 1 + w.IntN(3)}
	if has(v, r.Address) {
		return "nothing"
	}
	w.policies(&r)
	v.RealServers = append(v.RealServers, r)
	delete(w.gone, ipvs.Target{Service: keyOf(v), Destination: r.Address})
	return "server added"
}

func (w *world) removeServer(v *conf.VirtualServer, i int) string {
	t := ipvs.Target{Service: keyOf(v), Destination: v.RealServers[i].Address}
	v.RealServers = slices.Delete(slices.Clone(v.RealServers), i, i+1)
	w.gone[t] = time.Now()
	return "server removed"
}

func (w *world) policies(r *conf.RealServer) {
	r.Inhibit, r.DrainFailed = false, false
	switch w.IntN(3) {
	case 0:
		r.Inhibit = true
	case 1:
		r.DrainFailed = true
	}
	r.Method = []string{"DR", "NAT", "TUN"}[w.IntN(3)]
	r.Weight = []int{0, 1, 1, 2, 3, 40}[w.IntN(6)]
	r.SlowStart = []time.Duration{0, 0, 10 * time.Second}[w.IntN(3)]
	r.Checks = nil
	port := uint16(80 + w.IntN(2))
	for i := range w.IntN(3) {
		c := conf.Check{Kind: "TCP_CHECK", Target: netip.AddrPortFrom(r.Address.Addr(), port^uint16(i)), ConnectTimeout: time.Second, DelayLoop: time.Second, Alpha: w.IntN(5) == 0}
		r.Checks = append(r.Checks, c)
	}
}
