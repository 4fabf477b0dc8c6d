// Package spread shows what a vip_spread means: who owns what when all directors
// are up and after each failure, as text, JSON and SVG. It shows the plan of the
// file, not what a running daemon does: `vipd status` tells that.
package spread

import (
	"math"

	"vipd/conf"
)

// Report is what `vipd spread --json` prints. Its fields are stable: more may be
// added, none is renamed.
type Report struct {
	ConfigFile string   `json:"config_file"`
	Spreads    []Spread `json:"vip_spreads"`
}

// Spread is one [vip_spread.NAME].
type Spread struct {
	Name      string     `json:"name"`
	Interface string     `json:"interface"`
	Scheme    string     `json:"scheme"`
	Self      string     `json:"self"` // the director that this machine is; empty: none
	Directors []Director `json:"directors"`
	Groups    []Group    `json:"groups"`
	Scenarios []Scenario `json:"scenarios"` // all up, each failure of one director, each of two
	Change    *Change    `json:"change,omitempty"`
}

// Director is one director.
type Director struct {
	Name   string `json:"name"`
	Weight int    `json:"weight"`
}

// Group is one group of addresses.
type Group struct {
	Instance  string   `json:"instance"`
	VRID      int      `json:"virtual_router_id"`
	Addresses []string `json:"virtual_addresses"`
	Members   []Member `json:"directors"` // the owner first, then who follows when it fails, and so on
}

// Member is a director's place in a group.
type Member struct {
	Name     string `json:"name"`
	Priority int    `json:"priority"`
}

// Scenario is a set of failures and who owns what then.
type Scenario struct {
	Failed []string `json:"failed"`
	Loads  []Load   `json:"loads"` // of the directors that are left, in the order of the list
	Owners []string `json:"owners"`
	Moved  int      `json:"moved"` // groups with another owner than when all are up
}

// Load is what one director has in a scenario.
type Load struct {
	Director  string  `json:"director"`
	Groups    int     `json:"groups"`
	Addresses int     `json:"addresses"`
	Share     float64 `json:"share"` // what it should have, in groups, to two digits
}

// New returns the report of all spreads of a configuration, or of the one with
// the name.
func New(file string, cfg *conf.Config, name string) Report {
	r := Report{ConfigFile: file, Spreads: []Spread{}}
	for i := range cfg.Spreads {
		if s := &cfg.Spreads[i]; name == "" || name == s.Name {
			r.Spreads = append(r.Spreads, report(s))
		}
	}
	return r
}

func report(s *conf.Spread) Spread {
	out := Spread{Name: s.Name, Interface: s.Interface, Scheme: s.Scheme}
	if s.Self >= 0 {
		out.Self = s.Directors[s.Self].Name
	}
	for _, d := range s.Directors {
		out.Directors = append(out.Directors, Director(d))
	}
	for g, group := range s.Groups {
		o := Group{Instance: group.Instance, VRID: int(group.VRID)}
		for _, a := range group.Addresses {
			text := a.String()
			if a.IsSingleIP() {
				text = a.Addr().String()
			}
			o.Addresses = append(o.Addresses, text)
		}
		for _, d := range s.Plan.Order(g) {
			o.Members = append(o.Members, Member{s.Directors[d].Name, int(s.Plan.Priority(g, d))})
		}
		out.Groups = append(out.Groups, o)
	}
	n := len(s.Directors)
	out.Scenarios = append(out.Scenarios, scenario(s))
	for a := range n {
		if n > 1 {
			out.Scenarios = append(out.Scenarios, scenario(s, a))
		}
	}
	for a := range n {
		for b := a + 1; b < n && n > 2; b++ {
			out.Scenarios = append(out.Scenarios, scenario(s, a, b))
		}
	}
	return out
}

func scenario(s *conf.Spread, failed ...int) Scenario {
	out := Scenario{Failed: []string{}}
	gone := map[int]bool{}
	for _, d := range failed {
		gone[d] = true
		out.Failed = append(out.Failed, s.Directors[d].Name)
	}
	addresses := make([]int, len(s.Directors))
	for g, group := range s.Groups {
		owner := s.Plan.Owner(g, failed...)
		addresses[owner] += len(group.Addresses)
		out.Owners = append(out.Owners, s.Directors[owner].Name)
		if owner != s.Plan.Owner(g) {
			out.Moved++
		}
	}
	loads := s.Plan.Loads(failed...)
	for d := range s.Directors {
		if gone[d] {
			continue
		}
		num, den := s.Plan.Share(d, failed...)
		share := math.Round(100*float64(num)/float64(den)) / 100
		out.Loads = append(out.Loads, Load{s.Directors[d].Name, loads[d], addresses[d], share})
	}
	return out
}

// spare is the difference of the greatest and the least load of a scenario,
// against the shares: with equal weights the difference of the loads.
func (s *Scenario) spare() float64 {
	least, most := math.Inf(1), math.Inf(-1)
	for _, l := range s.Loads {
		x := float64(l.Groups) - l.Share
		least, most = min(least, x), max(most, x)
	}
	return most - least
}
