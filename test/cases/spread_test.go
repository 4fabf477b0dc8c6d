package cases

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// The addresses that the cases of this file spread: two for each group.
const (
	spreadGroups    = 12
	spreadAddresses = 24
)

// spreadVIPs are the addresses in the order of the file.
func spreadVIPs() []netip.Addr {
	list := []netip.Addr{lab.VIP()}
	for len(list) < spreadAddresses {
		list = append(list, list[len(list)-1].Next())
	}
	return list
}

// spreadConf is the shared file as it stands on one director: in a namespace the
// host name is that of the machine, so each has its name as router_id.
func spreadConf(self string, directors []string) string {
	return fmt.Sprintf(`
[global_defs]
router_id = %q

# From here on the same on all directors.
[vip_spread.WEB]
directors = ["%s"]
interface = "eth0"
virtual_router_id = "51-70"
groups = %d
virtual_ipaddress = ["%v-%v"]
version = 3
advert_int = 0.5
`, self, strings.Join(directors, `", "`), spreadGroups, spreadVIPs()[0], spreadVIPs()[spreadAddresses-1])
}

// spreadSite is a lab with directors d1 … d4.
func spreadSite(t *testing.T) *lab.Lab {
	l := lab.New(t, "d1", "d2", "d3")
	l.AddHost("d4", 4)
	return l
}

// whoHas asks the kernels who has each address; "" is nobody, and more than one
// are joined.
func whoHas(l *lab.Lab) map[netip.Addr]string {
	all := map[netip.Addr]string{}
	for _, vip := range spreadVIPs() {
		all[vip] = strings.Join(l.Owners(vip), "+")
	}
	return all
}

// loadsOf counts the addresses of each director.
func loadsOf(owners map[netip.Addr]string) map[string]int {
	loads := map[string]int{}
	for _, name := range owners {
		loads[name]++
	}
	return loads
}

// waitLoads waits until the kernels of exactly these directors have the
// addresses, as many each, and returns who has what.
func waitLoads(l *lab.Lab, t *testing.T, want map[string]int, limit time.Duration) map[netip.Addr]string {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		owners := whoHas(l)
		if maps.Equal(loadsOf(owners), want) {
			return owners
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v the directors have %v addresses, want %v", limit, loadsOf(owners), want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// One file runs on four directors, and each of them dies in turn.
//
// Claim: every address has one owner; with all up each director has three of the
// twelve groups; when one dies, each of the others takes one of its three, and
// nothing else moves; when it comes back, all is as before; and what `vipd spread`
// prints is what the kernels then have.
func TestSpreadEachDirectorDies(t *testing.T) {
	t.Parallel()
	l := spreadSite(t)
	names := []string{"d1", "d2", "d3", "d4"}
	daemons := map[string]*lab.Daemon{}
	for _, n := range l.Nodes(names...) {
		daemons[n.Name] = n.Vipd(spreadConf(n.Name, names))
	}
	each := spreadAddresses / 4
	normal := waitLoads(l, t, map[string]int{"d1": each, "d2": each, "d3": each, "d4": each}, 20*time.Second)
	shown := spreadShown(t, daemons["d1"])
	compareShown(t, normal, shown[""])
	for i, vip := range spreadVIPs() {
		if first := spreadVIPs()[i%spreadGroups]; normal[vip] != normal[first] {
			t.Errorf("%v is with %s, but %v of the same group with %s", vip, normal[vip], first, normal[first])
		}
	}
	for _, dead := range names {
		daemons[dead].Kill()
		want := map[string]int{}
		for _, n := range names {
			if n != dead {
				want[n] = spreadAddresses / 3
			}
		}
		for vip, owner := range normal { // the machine is gone, not only the daemon
			if owner == dead {
				l.Node(dead).RemoveAddress(vip)
			}
		}
		after := waitLoads(l, t, want, 10*time.Second)
		compareShown(t, after, shown[dead])
		for vip, owner := range normal {
			if owner != dead && after[vip] != owner {
				t.Errorf("%s died, and %v moved from %s to %s", dead, vip, owner, after[vip])
			}
		}
		daemons[dead].Again()
		back := waitLoads(l, t, loadsOf(normal), 20*time.Second)
		if !maps.Equal(back, normal) {
			t.Errorf("%s is back, and the addresses are with %v, before with %v", dead, back, normal)
		}
	}
}

// spreadShown returns what `vipd spread --json` says: by the failed director, ""
// for none, the owner of each address.
func spreadShown(t *testing.T, d *lab.Daemon) map[string]map[netip.Addr]string {
	t.Helper()
	text, err := d.Ctl("spread", "--json", "-c", d.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Spreads []struct {
			Groups []struct {
				Addresses []netip.Addr `json:"virtual_addresses"`
			} `json:"groups"`
			Scenarios []struct {
				Failed []string `json:"failed"`
				Owners []string `json:"owners"`
			} `json:"scenarios"`
		} `json:"vip_spreads"`
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		t.Fatalf("reading %q: %v", text, err)
	}
	all := map[string]map[netip.Addr]string{}
	for _, s := range report.Spreads[0].Scenarios {
		owners := map[netip.Addr]string{}
		for g, group := range report.Spreads[0].Groups {
			for _, a := range group.Addresses {
				owners[a] = s.Owners[g]
			}
		}
		all[strings.Join(s.Failed, "+")] = owners
	}
	return all
}

func compareShown(t *testing.T, have, shown map[netip.Addr]string) {
	t.Helper()
	for _, vip := range spreadVIPs() {
		if have[vip] != shown[vip] {
			t.Errorf("%v is with %q, vipd spread says %q", vip, have[vip], shown[vip])
		}
	}
}

// A fourth director is added to three while they work. The file reaches them one
// by one.
//
// Claim: in whatever order, every address has one owner throughout; three of the
// twelve groups move, all to the new director, each without a gap; the others
// never lose their owner for a moment, though half of the directors still have
// the old file.
func TestSpreadGrowsWhileItWorks(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"d4", "d1", "d2", "d3"}, {"d3", "d1", "d2", "d4"}, {"d2", "d4", "d3", "d1"}} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			t.Parallel()
			growSpread(t, order)
		})
	}
}

func growSpread(t *testing.T, order []string) {
	l := spreadSite(t)
	old := []string{"d1", "d2", "d3"}
	grown := append(slices.Clone(old), "d4")
	daemons := map[string]*lab.Daemon{}
	for _, n := range l.Nodes(old...) {
		daemons[n.Name] = n.Vipd(spreadConf(n.Name, old))
	}
	third, quarter := spreadAddresses/3, spreadAddresses/4
	before := waitLoads(l, t, map[string]int{"d1": third, "d2": third, "d3": third}, 20*time.Second)
	time.Sleep(time.Second) // all have settled
	logs := map[netip.Addr]*lab.OwnerLog{}
	for _, vip := range spreadVIPs()[:spreadGroups] {
		logs[vip] = l.WatchOwners(vip, 40*time.Millisecond)
	}
	for _, name := range order {
		if d := daemons[name]; d != nil {
			d.Reload(spreadConf(name, grown))
		} else {
			daemons[name] = l.Node(name).Vipd(spreadConf(name, grown))
		}
		time.Sleep(3 * time.Second) // longer than an election: 2 s
	}
	after := waitLoads(l, t, map[string]int{"d1": quarter, "d2": quarter, "d3": quarter, "d4": quarter}, 20*time.Second)
	moved := 0
	for vip, log := range logs {
		log.Stop()
		if err := log.Err(); err != nil {
			t.Error(err)
		}
		var owners []string // one after the other, without what lasts one advert
		for _, p := range log.Periods() {
			if name := strings.Join(p.Owners, "+"); p.To.Sub(p.From) > 400*time.Millisecond {
				owners = append(owners, name)
			}
		}
		want := []string{before[vip]}
		if after[vip] != before[vip] {
			moved++
			want = append(want, "d4")
		} else if len(log.Periods()) > 1 {
			t.Errorf("%v of %s does not move, and yet: %v", vip, before[vip], log.Periods())
		}
		if !slices.Equal(owners, want) {
			t.Errorf("%v was with %v, want %v: %v", vip, owners, want, log.Periods())
		}
	}
	if moved != spreadGroups/4 {
		t.Errorf("%d groups moved, want %d", moved, spreadGroups/4)
	}
}
