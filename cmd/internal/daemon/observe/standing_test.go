package observe

import (
	"errors"
	"io/fs"
	"net/netip"
	"testing"
	"time"

	"vipd/cmd/internal/settings/linksysctl"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/vmac"
	"vipd/vrrp/router"
)

// table is a kernel with one interface, some routes and settings.
type table struct {
	state   host.State
	routes  []fib.Route
	queries []fib.Query
	err     error
}

func (k *table) Tables(q []fib.Query) { k.queries = q }

func (k *table) State() (host.State, error) {
	s := k.state
	s.FIB = &fib.State{At: time.Now(), Queries: k.queries, Routes: k.routes}
	return s, k.err
}

// values are kernel settings.
type values map[string]string

func (v values) Get(path string) (string, error) {
	if s, ok := v[path]; ok {
		return s, nil
	}
	return "", fs.ErrNotExist
}

func (v values) Set(path, _ string) error { return errors.New(path + " must not be set") }

func blackhole(dst string) fib.Route {
	return fib.Route{Type: fib.Blackhole, Dst: netip.MustParsePrefix(dst), Table: fib.MainTable, Protocol: fib.Protocol}
}

// TestStanding: what every state has is told once, with what is there already, and so
// are routes, links with virtual MACs, commands and mail of a change of state.
func TestStanding(t *testing.T) {
	log, lines := logged()
	r := New(log)
	there, missing, static := blackhole("10.51.0.0/16"), blackhole("10.52.0.0/16"), blackhole("10.53.0.0/16")
	rule := fib.Rule{From: netip.MustParsePrefix("10.9.0.100/32"), Table: 100, Priority: 1000, SuppressPrefix: -1, Action: fib.ToTable, Protocol: fib.Protocol}
	k := &table{state: on(vipB), routes: []fib.Route{there}}
	link := vmac.Link{Name: "vrrp.51", Parent: "eth0", MAC: [6]byte{0, 0, 0x5e, 0, 1, 51}, IPv4: true}
	in := web(func(in *Instance) {
		in.Set.Instance = "WEB"
		in.Set.NoAccept = true
		in.Links = []vmac.Link{link}
		in.Set.Addresses[0].Dev = "vrrp.51"
		for _, o := range []fib.Object{{Route: &there}, {Route: &missing}, {Rule: &rule}} {
			in.Set.Paths = append(in.Set.Paths, fib.Want{Object: o})
		}
	})
	all := host.Set{Static: true, Addresses: []host.Address{{Prefix: vipA, Dev: "eth0"}, {Prefix: vipB, Dev: "eth0"}, {Prefix: vipB, Dev: "eth9"}}, Paths: []fib.Want{{Object: fib.Object{Route: &static}}}}
	p := NewPaths(k, r, log)
	now, found, err := p.Configure([]host.Set{all, in.Set})
	if err != nil {
		t.Fatal(err)
	}
	s := Standing{
		Links: []vmac.Link{link}, Table: "vipd", Static: all, Hooks: []string{"run /bin/true (startup_script)"},
		IPVS:     []Step{{"would run: ipvsadm", true}},
		Settings: []linksysctl.Setting{{Dev: "eth0", Name: "promote_secondaries", Value: "1"}, {Dev: "eth9", Name: "promote_secondaries", Value: "1"}},
	}
	kernel := values{"net/ipv4/conf/eth0/promote_secondaries": "0", "net/ipv4/conf/eth0/arp_ignore": "2", "net/ipv4/conf/eth0/arp_announce": "0"}
	r.Stand(&s, now, found, kernel)
	r.Stand(&s, now, found, kernel)
	want(t, "what every state has", lines(),
		"I in every state: would run /bin/true (startup_script)",
		"I in every state: would set net/ipv4/conf/eth0/promote_secondaries from 0 to 1",
		"W in every state: could not set net/ipv4/conf/eth9/promote_secondaries to 1: file does not exist",
		"I in every state: would have group reports and router solicitations not leave by vrrp.51 (nftables table vipd)",
		"I in every state: would make the link vrrp.51 with the virtual MAC 00:00:5e:00:01:33 on eth0",
		"I in every state: would leave net/ipv4/conf/eth0/arp_ignore = 2 as it is",
		"I in every state: would set net/ipv4/conf/eth0/arp_announce from 0 to 2",
		"I in every state: would add 203.0.113.10/32 to eth0",
		"I in every state: would add 203.0.113.11/32 to eth0 (there already)",
		"W in every state: could not add 203.0.113.11/32 to eth9: no such interface",
		"I in every state: would add route blackhole 10.53.0.0/16", "W in every state: would run: ipvsadm")

	r.Configure([]Instance{in})
	r.State(now)
	r.Want("WEB", true)
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Backup, To: vrrp.Master}, "run /bin/true", `mail "x" to a@example.com`)
	r.Want("WEB", false)
	k.routes = append(k.routes, missing)
	p.again()
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Master, To: vrrp.Fault}, "run /bin/false")
	r.Transition(router.TransitionEvent{Instance: "WEB", From: vrrp.Fault, To: vrrp.Backup}, "run /bin/true")
	k.err = errors.New("no")
	p.again()
	p.again()
	want(t, "changes of state", lines(),
		"I would become MASTER: send an advert, refuse packets to 203.0.113.10, 203.0.113.11 (no_accept), add 203.0.113.10/32 to vrrp.51 (virtual MAC 00:00:5e:00:01:33 on eth0) (and, there already, 203.0.113.11/32 to eth0), add route blackhole 10.52.0.0/16, rule from 10.9.0.100/32 table 100 priority 1000 (and, there already, route blackhole 10.51.0.0/16), run /bin/true, mail \"x\" to a@example.com",
		"W would leave MASTER for FAULT: remove route blackhole 10.52.0.0/16, route blackhole 10.51.0.0/16 (and, not there, rule from 10.9.0.100/32 table 100 priority 1000), remove 203.0.113.11/32 from eth0 (and, not there, 203.0.113.10/32 from vrrp.51 (virtual MAC 00:00:5e:00:01:33 on eth0)), refuse packets to them no longer, run /bin/false",
		"I would go FAULT -> BACKUP: run /bin/true",
		"W routes and rules cannot be compared")
}
