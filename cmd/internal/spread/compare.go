package spread

import (
	"fmt"
	"io"
	"strings"
)

// Change is what becomes of a spread when a file takes the place of another.
type Change struct {
	OldFile   string   `json:"old_file"`
	Known     bool     `json:"known"`     // the old file has a spread of this name
	Moves     []Move   `json:"moves"`     // groups that get another owner while all are up
	Regrouped []string `json:"regrouped"` // addresses of both files that get another VRID or interface: the two must not run side by side
	Added     int      `json:"added"`     // addresses that only the new file has
	Removed   int      `json:"removed"`   // addresses that only the old file has
}

// Move is a group with a new owner.
type Move struct {
	Instance string `json:"instance"`
	From     string `json:"from"`
	To       string `json:"to"`
}

// Compare adds to each spread of the report what changes against the report of
// an older file.
func (r *Report) Compare(old Report) {
	for i := range r.Spreads {
		s := &r.Spreads[i]
		s.Change = &Change{OldFile: old.ConfigFile, Moves: []Move{}, Regrouped: []string{}}
		for j := range old.Spreads {
			if old.Spreads[j].Name == s.Name {
				s.Change.Known = true
				s.compare(&old.Spreads[j])
			}
		}
	}
}

// compare fills in the change of one spread.
func (s *Spread) compare(old *Spread) {
	groups, owners := map[string]int{}, map[int]string{}
	for _, g := range old.Groups {
		owners[g.VRID] = g.Members[0].Name
		for _, a := range g.Addresses {
			groups[a] = g.VRID
		}
	}
	known := 0
	for _, g := range s.Groups {
		for _, a := range g.Addresses {
			vrid, ok := groups[a]
			switch {
			case !ok:
				s.Change.Added++
			case vrid != g.VRID || s.Interface != old.Interface:
				s.Change.Regrouped = append(s.Change.Regrouped, a)
				known++
			default:
				known++
			}
		}
		if from, ok := owners[g.VRID]; ok && from != g.Members[0].Name {
			s.Change.Moves = append(s.Change.Moves, Move{g.Instance, from, g.Members[0].Name})
		}
	}
	s.Change.Removed = len(groups) - known
}

// writeChange prints the change.
func (s *Spread) writeChange(w io.Writer) {
	c := s.Change
	if c == nil {
		return
	}
	fmt.Fprintln(w)
	if !c.Known {
		fmt.Fprintf(w, "%s has no vip_spread %s.\n", c.OldFile, s.Name)
		return
	}
	fmt.Fprintf(w, "Compared with %s, %d of %s move:\n", c.OldFile, len(c.Moves), count(len(s.Groups), "group", "groups"))
	for _, m := range c.Moves {
		fmt.Fprintf(w, "  %s from %s to %s\n", m.Instance, m.From, m.To)
	}
	if c.Added+c.Removed > 0 {
		fmt.Fprintf(w, "%s added, %d removed.\n", count(c.Added, "address is", "addresses are"), c.Removed)
	}
	if n := len(c.Regrouped); n > 0 {
		fmt.Fprintf(w, "STOP: %s would change the VRID or interface: %s%s\n", count(n, "address", "addresses"), strings.Join(c.Regrouped[:min(n, shownAddresses)], " "), more(n))
		fmt.Fprintln(w, "While some directors have the old file and others this one, such addresses have two owners or none.")
		fmt.Fprintln(w, "Keep groups, virtual_router_id, interface and the order of virtual_ipaddress; add new addresses at the end.")
	}
}

func more(n int) string {
	if n > shownAddresses {
		return fmt.Sprintf(" and %d more", n-shownAddresses)
	}
	return ""
}
