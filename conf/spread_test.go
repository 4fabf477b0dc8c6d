package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// loadOn loads one file on the machine with the host name.
func loadOn(hostname, text string) (*Config, Diagnostics) {
	return Load(fstest.MapFS{"vipd.toml": {Data: []byte(text)}}, "vipd.toml", Env{Hostname: hostname})
}

// spreadText is a file with one vip_spread.
func spreadText(directors []string, addresses, groups int, more string) string {
	return fmt.Sprintf("[vip_spread.S]\ndirectors = %s\ninterface = \"eth0\"\nvirtual_router_id = \"11-210\"\ngroups = %d\nvirtual_ipaddress = [\"10.0.0.1-%d\"]\n%s",
		quoteAll(directors), groups, addresses, more)
}

// names returns lvs-1, lvs-2, …
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("lvs-%d", i+1)
	}
	return all
}

// routers returns the addresses of every VRID.
func routers(c *Config) map[uint8]string {
	all := map[uint8]string{}
	for _, in := range c.Instances {
		all[in.VRID] = fmt.Sprint(in.VIPs)
	}
	return all
}

// TestSpreadOnEveryDirector loads one file on all of 2–16 directors: they agree
// on the addresses of every VRID and differ in priorities only, which are 1..254
// and never equal; every address is there once. With one director more nothing
// but priorities changes.
func TestSpreadOnEveryDirector(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		n := rapid.IntRange(2, 16).Draw(r, "directors")
		addresses := rapid.IntRange(1, 200).Draw(r, "addresses")
		groups := rapid.IntRange(1, addresses).Draw(r, "groups")
		first := map[uint8]string{}
		priorities := map[uint8][]uint8{}
		for i, name := range append(names(n), "lvs-1") {
			more := i / n // the last round: one director more
			c, diags := loadOn(name, spreadText(names(n+more), addresses, groups, ""))
			if c == nil {
				r.Fatalf("%s", diags.Text())
			}
			if i == 0 {
				first = routers(c)
				seen := map[netip.Addr]bool{}
				for _, in := range c.Instances {
					for _, v := range in.VIPs {
						seen[v.Prefix.Addr()] = true
					}
				}
				if len(seen) != addresses || len(first) != groups {
					r.Fatalf("%d addresses under %d VRIDs, want %d under %d", len(seen), len(first), addresses, groups)
				}
			}
			for vrid, vips := range routers(c) {
				if first[vrid] != vips {
					r.Fatalf("%s: VRID %d has %s, elsewhere %s", name, vrid, vips, first[vrid])
				}
			}
			if more > 0 {
				continue
			}
			for _, in := range c.Instances {
				if in.Priority < 1 || in.Priority > 254 || slices.Contains(priorities[in.VRID], in.Priority) || in.WantMaster {
					r.Fatalf("%s: VRID %d has priority %d beside %v", name, in.VRID, in.Priority, priorities[in.VRID])
				}
				priorities[in.VRID] = append(priorities[in.VRID], in.Priority)
			}
		}
	})
}

// TestSpreadFollowsPlan: the director with the highest priority is the owner in
// the plan that the Config shows.
func TestSpreadFollowsPlan(t *testing.T) {
	for _, scheme := range []string{"even", "pairs"} {
		for self, name := range names(4) {
			c, diags := loadOn(name, spreadText([]string{"lvs-1 weight 2", "lvs-2", "lvs-3", "lvs-4"}, 12, 12, "scheme = \""+scheme+"\""))
			if c == nil {
				t.Fatal(diags.Text())
			}
			s := c.Spreads[0]
			if s.Self != self || s.Name != "S" || len(s.Groups) != 12 || s.Directors[0] != (Director{"lvs-1", 2}) {
				t.Errorf("%s: %+v", name, s)
			}
			for g, group := range s.Groups {
				in := c.Instances[g]
				if in.Name != group.Instance || in.VRID != group.VRID || in.Priority != s.Plan.Priority(g, self) {
					t.Errorf("%s: group %d is %+v, the instance %+v", name, g, group, in)
				}
			}
			if scheme == "pairs" && s.Plan.Owner(0, s.Plan.Owner(0)) != s.Plan.Owner(0)^1 {
				t.Errorf("the first group goes to %d when %d fails", s.Plan.Owner(0, s.Plan.Owner(0)), s.Plan.Owner(0))
			}
		}
	}
}

// TestSpreadSelf: who this machine is.
func TestSpreadSelf(t *testing.T) {
	for _, c := range []struct {
		hostname, routerID string
		want               int // -1: an error
	}{
		{"lvs-2", "", 1},
		{"lvs-2.example.org", "", 1},
		{"other", "lvs-3", 2},
		{"lvs-2", "lvs-3", 2}, // router_id first
		{"lvs-2", "other", 1},
		{"lvs-4", "", -1},
		{"", "", -1},
		{"LVS-2", "", -1},
		{"lvs-22", "", -1},
	} {
		text := spreadText(names(3), 3, 3, "")
		if c.routerID != "" {
			text += "\n[global_defs]\nrouter_id = \"" + c.routerID + "\"\n"
		}
		config, diags := loadOn(c.hostname, text)
		switch {
		case c.want >= 0 && (config == nil || config.Spreads[0].Self != c.want):
			t.Errorf("host %q, router_id %q: %s", c.hostname, c.routerID, diags.Text())
		case c.want < 0 && (config != nil || diags[0].Rule != "vip_spread.directors/unknown"):
			t.Errorf("host %q, router_id %q: taken, or refused for another reason: %s", c.hostname, c.routerID, diags.Text())
		}
	}
	fsys := fstest.MapFS{"vipd.toml": {Data: []byte(spreadText(names(3), 3, 3, ""))}}
	config, diags := Load(fsys, "vipd.toml", Env{Hostname: "laptop", Spectator: true})
	if config == nil || config.Spreads[0].Self != -1 {
		t.Errorf("a spectator: %s", diags.Text())
	}
}

// TestSpreadGrows: an address at the end of the list joins one group and moves no
// other; names get longer with the number of groups, all alike.
func TestSpreadGrows(t *testing.T) {
	before, _ := loadOn("lvs-1", spreadText(names(2), 10, 4, ""))
	after, _ := loadOn("lvs-1", spreadText(names(2), 11, 4, ""))
	changes := Diff(before, after)
	if len(changes) != 1 || !strings.Contains(changes[0].String(), "S-03") || !strings.Contains(changes[0].String(), "10.0.0.11") {
		t.Errorf("%s", linesOf(changes))
	}
	many, _ := loadOn("lvs-1", spreadText(names(2), 200, 100, ""))
	if first, last := many.Instances[0].Name, many.Instances[99].Name; first != "S-001" || last != "S-100" {
		t.Errorf("from %s to %s", first, last)
	}
}

// TestAddressBlock: what counts as a block or range.
func TestAddressBlock(t *testing.T) {
	for _, c := range []struct {
		text  string
		first string
		count int
	}{
		{"203.0.113.64/28", "203.0.113.64", 16},
		{"203.0.113.64/31", "203.0.113.64", 2},
		{"203.0.113.64/32", "", 0},
		{"203.0.113.65/28", "", 0}, // an address with a prefix length
		{"203.0.113.64", "", 0},
		{"203.0.113.10-29", "203.0.113.10", 20},
		{"203.0.113.10-203.0.114.9", "203.0.113.10", 256},
		{"203.0.113.10-10", "203.0.113.10", 1},
		{"203.0.113.10-9", "", 0},
		{"203.0.113.10-", "", 0},
		{"203.0.113.10-300", "", 0},
		{"203.0.113.10-2001:db8::1", "", 0},
		{"0.0.0.0/0", "", 0},
		{"10.0.0.0/15", "10.0.0.0", 1 << 17},
		{"2001:db8::/126", "2001:db8::", 4},
		{"2001:db8::/32", "2001:db8::", 1 << 17},
		{"2001:db8::9-1f", "2001:db8::9", 23},
		{"2001:db8::1-2001:db9::1", "2001:db8::1", maxBlock + 1},
		{"::ffff:10.0.0.0/120", "", 0},
	} {
		first, count := addressBlock(c.text)
		if count != c.count || count > 0 && first.String() != c.first {
			t.Errorf("%s: %s, %d addresses; want %s, %d", c.text, first, count, c.first, c.count)
		}
	}
}
