package spread

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// What fits on a screen.
const (
	shownAddresses = 4 // of a group
	shownPairs     = 5 // directors up to which every failure of two has a line
)

// WriteText prints the report as tables.
func (r *Report) WriteText(w io.Writer) error {
	if len(r.Spreads) == 0 {
		_, err := fmt.Fprintf(w, "%s: there is no vip_spread\n", r.ConfigFile)
		return err
	}
	for i := range r.Spreads {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := r.Spreads[i].writeText(w); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spread) writeText(w io.Writer) error {
	fmt.Fprintln(w, s.title())
	if s.Self != "" {
		fmt.Fprintf(w, "This machine is %s.\n", s.Self)
	} else {
		fmt.Fprintln(w, "This machine is none of the directors.")
	}
	fmt.Fprintln(w)
	if err := s.writeGroups(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := s.writeLoads(w); err != nil {
		return err
	}
	s.writeMoves(w)
	s.writeChange(w)
	return nil
}

// title says in one line what is spread over what.
func (s *Spread) title() string {
	addresses := 0
	for _, g := range s.Groups {
		addresses += len(g.Addresses)
	}
	return fmt.Sprintf("vip_spread %s: %s in %s on %s, spread over %s, scheme %s", s.Name,
		count(addresses, "address", "addresses"), count(len(s.Groups), "group", "groups"), s.Interface, count(len(s.Directors), "director", "directors"), s.Scheme)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (s *Spread) writeGroups(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "GROUP\tVRID\tOWNER\tTHEN\tADDRESSES")
	for _, g := range s.Groups {
		then := make([]string, 0, len(g.Members))
		for _, m := range g.Members[1:] {
			then = append(then, m.Name)
		}
		addresses := strings.Join(g.Addresses[:min(len(g.Addresses), shownAddresses)], " ") + more(len(g.Addresses))
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\n", g.Instance, g.VRID, g.Members[0].Name, strings.Join(then, " "), addresses)
	}
	return tw.Flush()
}

// writeLoads prints a line for each scenario: with many directors, of the
// failures of two only the least even one.
func (s *Spread) writeLoads(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0 // of the first column, the only one that begins at the left
	for i := range s.Scenarios {
		width = max(width, utf8.RuneCountInString(s.Scenarios[i].title()))
	}
	fmt.Fprintf(tw, "%-*s\t", width, "GROUPS (ADDRESSES)")
	for _, d := range s.Directors {
		name := d.Name
		if s.weighted() {
			name += fmt.Sprintf(" weight %d", d.Weight)
		}
		fmt.Fprint(tw, name+"\t")
	}
	fmt.Fprintln(tw, "moved\t")
	var worst *Scenario
	for i := range s.Scenarios {
		c := &s.Scenarios[i]
		if len(c.Failed) < 2 || len(s.Directors) <= shownPairs {
			s.writeScenario(tw, c, width)
		} else if worst == nil || c.spare() > worst.spare() {
			worst = c
		}
	}
	if worst != nil {
		s.writeScenario(tw, worst, width)
	}
	if err := tw.Flush(); err != nil || worst == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "The last line is the least even of all failures of two; --json has them all.\n")
	return err
}

func (s *Spread) writeScenario(w io.Writer, c *Scenario, width int) {
	fmt.Fprintf(w, "%-*s\t", width, c.title())
	loads := c.Loads
	for _, d := range s.Directors {
		if len(loads) > 0 && loads[0].Director == d.Name {
			fmt.Fprintf(w, "%d (%d)\t", loads[0].Groups, loads[0].Addresses)
			loads = loads[1:]
		} else {
			fmt.Fprint(w, "-\t")
		}
	}
	fmt.Fprintf(w, "%d\t\n", c.Moved)
}

// title names the failures.
func (c *Scenario) title() string {
	switch len(c.Failed) {
	case 0:
		return "all up"
	case 1:
		return "without " + c.Failed[0]
	}
	return "without " + strings.Join(c.Failed, " and ")
}

// weighted reports whether the directors have different weights.
func (s *Spread) weighted() bool {
	for _, d := range s.Directors {
		if d.Weight != s.Directors[0].Weight {
			return true
		}
	}
	return false
}

// writeMoves prints what goes where when a director fails.
func (s *Spread) writeMoves(w io.Writer) {
	for _, c := range s.Scenarios {
		if len(c.Failed) != 1 || c.Moved == 0 {
			continue
		}
		fmt.Fprintf(w, "\nWhen %s fails:\n", c.Failed[0])
		for _, d := range s.Directors {
			var got []string
			for g, owner := range c.Owners {
				if owner == d.Name && s.Groups[g].Members[0].Name == c.Failed[0] {
					got = append(got, s.Groups[g].Instance)
				}
			}
			if len(got) > 0 {
				fmt.Fprintf(w, "  %s takes %s\n", d.Name, strings.Join(got, " "))
			}
		}
	}
}
