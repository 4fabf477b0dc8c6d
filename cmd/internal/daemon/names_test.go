package daemon

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
)

// A new service whose check of the same server has another timing comes first in the file: the check that ran goes on,
// and the new one begins without a result.
func TestNewServiceBeforeAnOldOne(t *testing.T) {
	for _, healthy := range []bool{false, true} {
		b, checks, table := newTestBalancer(t, server(80))
		checks.set(t, check21, healthy)
		b.HealthChanged()
		slow := onPort(81)
		slow.RealServers[0].Checks[0].DelayLoop *= 5
		for range 2 {
			if err := b.Configure([]conf.VirtualServer{slow, server(80)}); err != nil {
				t.Fatal(err)
			}
			if st := checks.states[b.services[1].keys[0][0]]; !st.Known || st.Inherited || st.Healthy != healthy {
				t.Errorf("healthy %v: the old check is %+v", healthy, st)
			}
			if st := checks.states[b.services[0].keys[0][0]]; st.Known {
				t.Errorf("healthy %v: the new check began as %+v", healthy, st)
			}
			if _, in := table.want[ipvs.AddressKey(ipvs.TCP, slow.Address)].Destinations[slow.RealServers[0].Address]; !in || table.has(21) != healthy {
				t.Errorf("healthy %v: table %v", healthy, table.want)
			}
		}
	}
}

// namedChecks is a configuration that changes at random, and what was known of its checks before the last change.
type namedChecks struct {
	*rapid.T
	servers []conf.VirtualServer
	b       *balancer
	checks  *fakeChecks
	twin    *balancer // keeps nothing over a reload, and does all anew
	twins   *fakeChecks
	before  []seenCheck
	known   map[serverID]healthcheck.Verdict
}

// seenCheck is a check of one server.
type seenCheck struct {
	id      serverID
	variant variant
	name    string
	status  run.Status
}

func (s seenCheck) verdict() healthcheck.Verdict {
	return (&shared{statuses: map[string]run.Status{"": s.status}}).verdict("")
}

// TestNamesOfChecks: after any insertion, removal, move or change of services, servers and timing each check that is as
// before has its name, verdict and results; one whose timing changed has its server's verdict, and a new one none, unless
// an equal one runs. Equal ones are one check. What is kept of services that did not change is what doing all anew gives.
func TestNamesOfChecks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checks, twins := &fakeChecks{}, &fakeChecks{}
		n := &namedChecks{
			T: t, checks: checks, b: newBalancer(checks, &fakeTable{}, func(string) {}, zap.NewNop()),
			twins: twins, twin: newBalancer(twins, &fakeTable{}, func(string) {}, zap.NewNop()),
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {},
			"result": func(t *rapid.T) {
				if keys := checks.keys(); len(keys) > 0 {
					key, st := rapid.SampledFrom(keys).Draw(t, "check"), run.Status{Known: true, Healthy: rapid.Bool().Draw(t, "healthy")}
					checks.states[key], twins.states[key] = st, st
					n.b.HealthChanged()
					n.twin.HealthChanged()
				}
			},
			"reload": func(t *rapid.T) {
				for range rapid.IntRange(0, 4).Draw(t, "edits") {
					n.edit(t)
				}
				n.reload()
				n.judge()
				n.reload()
				n.judge()
				n.settled()
			},
		})
	})
}

// edit changes the configuration in one way.
func (n *namedChecks) edit(t *rapid.T) {
	pick := func(most int, what string) int { return rapid.IntRange(0, most).Draw(t, what) }
	if len(n.servers) == 0 || len(n.servers) < 4 && pick(2, "more") == 0 {
		v := server(80)
		v.Address = netip.AddrPortFrom(v.Address.Addr(), n.free(t))
		for i := range v.RealServers {
			n.recheck(t, &v.RealServers[i])
		}
		n.servers = slices.Insert(slices.Clone(n.servers), pick(len(n.servers), "place"), v)
		return
	}
	n.servers = slices.Clone(n.servers)
	i := pick(len(n.servers)-1, "service")
	v := &n.servers[i]
	v.RealServers = slices.Clone(v.RealServers)
	switch pick(5, "edit") {
	case 0:
		n.servers = slices.Delete(n.servers, i, i+1)
	case 1:
		j := pick(len(n.servers)-1, "other")
		n.servers[i], n.servers[j] = n.servers[j], n.servers[i]
	case 2: // its address is another
		v.Address = netip.AddrPortFrom(v.Address.Addr(), n.free(t))
	case 3:
		slices.Reverse(v.RealServers)
	default:
		n.recheck(t, &v.RealServers[pick(1, "server")])
	}
}

// free is a port without a service.
func (n *namedChecks) free(t *rapid.T) uint16 {
	return rapid.Uint16Range(80, 87).Filter(func(p uint16) bool {
		return !slices.ContainsFunc(n.servers, func(v conf.VirtualServer) bool { return v.Address.Port() == p })
	}).Draw(t, "port")
}

// recheck gives a server one or two checks.
func (n *namedChecks) recheck(t *rapid.T, r *conf.RealServer) {
	r.Checks = nil
	for range rapid.IntRange(1, 2).Draw(t, "checks") {
		c := conf.Check{Kind: "TCP_CHECK", ConnectTimeout: time.Second, Alpha: rapid.IntRange(0, 5).Draw(t, "alpha") == 0}
		c.Target = netip.AddrPortFrom(r.Address.Addr(), rapid.Uint16Range(80, 81).Draw(t, "target"))
		c.DelayLoop = time.Duration(rapid.IntRange(1, 3).Draw(t, "delay_loop")) * time.Second
		r.Checks = append(r.Checks, c)
	}
}

// seen are the checks of all servers.
func (n *namedChecks) seen() (out []seenCheck) {
	for _, s := range n.b.services {
		for i := range s.conf.RealServers {
			r := &s.conf.RealServers[i]
			for j, name := range s.keys[i] {
				job, err := n.b.local.job(s.id.String(), r, &r.Checks[j], healthcheck.Unknown)
				if err != nil {
					n.Fatal(err)
				}
				if !s.going(r.Address) {
					out = append(out, seenCheck{serverID{identity(s.conf), r.Address}, variantOf(&job), name, n.checks.states[name]})
				}
			}
		}
	}
	return out
}

func (n *namedChecks) reload() {
	n.before, n.known = n.seen(), map[serverID]healthcheck.Verdict{}
	for _, s := range n.b.services {
		for i, r := range s.conf.RealServers {
			n.known[serverID{s.id, r.Address}] = s.verdict(i, n.checks.states)
		}
	}
	if err := n.b.Configure(slices.Clone(n.servers)); err != nil {
		n.Fatal(err)
	}
	for i := range n.twin.services {
		other := *n.twin.services[i].conf
		other.Name += " changed"
		n.twin.services[i].conf = &other
	}
	if err := n.twin.Configure(slices.Clone(n.servers)); err != nil {
		n.Fatal(err)
	}
	n.alike()
}

// alike compares the balancer with its twin.
func (n *namedChecks) alike() {
	if !maps.Equal(n.checks.states, n.twins.states) || !maps.Equal(n.b.named, n.twin.named) {
		n.Fatalf("checks %v, would be %v", n.checks.states, n.twins.states)
	}
	if a, b := n.b.table.(*fakeTable).want, n.twin.table.(*fakeTable).want; !a.Equal(b) {
		n.Fatalf("table\n%s\nwould be\n%s", a, b)
	}
	for i := range n.b.services {
		a, b := &n.b.services[i], &n.twin.services[i]
		same := func(a, b knownServer) bool {
			return a.now == b.now && a.told == b.told && a.failed == b.failed && a.kept == b.kept && a.since.IsZero() == b.since.IsZero()
		}
		if !slices.EqualFunc(a.keys, b.keys, slices.Equal) || !slices.EqualFunc(a.servers, b.servers, same) {
			n.Fatalf("%s: %v %+v, would be %v %+v", a.id, a.keys, a.servers, b.keys, b.servers)
		}
	}
}

// judge compares each check with those before.
func (n *namedChecks) judge() {
	now := n.seen()
	for _, c := range now {
		own := filter(n.before, func(b seenCheck) bool { return b.id == c.id })
		if same := filter(own, func(b seenCheck) bool { return b.variant == c.variant }); len(same) > 0 {
			ran := filter(n.before, func(b seenCheck) bool { return b.name == c.name && b.variant == c.variant })
			kept := filter(same, func(b seenCheck) bool { // two, if one of them has alpha
				return c.verdict() == b.verdict() && !(b.status.Known && !b.status.Inherited && c.status.Inherited)
			})
			if len(ran) == 0 || len(kept) == 0 {
				n.Fatalf("%v is as before and was %+v; now it is %q %+v", c.id, same, c.name, c.status)
			}
			continue
		}
		verdict, old := n.known[c.id]
		allowed := []healthcheck.Verdict{verdict}
		for _, b := range n.before {
			goesOn := slices.ContainsFunc(now, func(o seenCheck) bool { return o.id == b.id && o.name == b.name && o.name == c.name })
			if b.id == c.id && b.variant.key == c.variant.key || verdict == healthcheck.Unknown && (b.variant == c.variant || goesOn) {
				allowed = append(allowed, b.verdict())
			}
		}
		if alone := c.status.Inherited && !c.status.Healthy; !slices.Contains(allowed, c.verdict()) && !(alone && !old) && !(old && verdict == healthcheck.Unknown && c.status.Inherited) {
			n.Fatalf("%v is new and began as %q %+v; the server was %v, allowed are %v", c.id, c.name, c.status, verdict, allowed)
		}
	}
}

// settled: a reload that changes nothing leaves a check alone, and no two that are equal in all.
func (n *namedChecks) settled() {
	type equal struct {
		variant
		healthcheck.Verdict
	}
	names := map[equal]string{}
	for _, c := range n.seen() {
		e := equal{c.variant, c.verdict()}
		if other, there := names[e]; there && other != c.name {
			n.Fatalf("%q and %q are equal", other, c.name)
		}
		names[e] = c.name
	}
	states := maps.Clone(n.checks.states)
	n.reload()
	if !maps.Equal(states, n.checks.states) {
		n.Fatalf("a reload that changes nothing made %v of %v", n.checks.states, states)
	}
}

func filter[T any](list []T, keep func(T) bool) (out []T) {
	for _, x := range list {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}
