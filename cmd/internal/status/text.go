package status

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText prints s as the table of `vipd status`. Times are told as ages
// before now.
func (s *Status) WriteText(w io.Writer, now time.Time) error {
	where := ""
	if s.Namespace != "" {
		where = ", in network namespace " + s.Namespace
	}
	if s.IPVSNamespace != "" {
		where += ", IPVS in " + s.IPVSNamespace
	}
	fmt.Fprintf(w, "vipd %s, pid %d, up %s, %s loaded %s ago%s\n", s.Version, s.PID,
		age(now, s.Started), s.ConfigFile, age(now, s.ConfigLoaded), where)
	if s.Observe {
		fmt.Fprintln(w, "OBSERVING beside keepalived: nothing is changed and nothing sent; states are those that vipd would have")
	}
	if s.ReloadError != "" {
		fmt.Fprintf(w, "LAST RELOAD REFUSED: %s\n", s.ReloadError)
	}
	for _, a := range s.Alarms {
		fmt.Fprintf(w, "ALARM: %s\n", a)
	}
	for _, a := range s.Advice {
		fmt.Fprintf(w, "NOTE: %s\n", a)
	}
	if len(s.Instances) > 0 {
		if err := s.writeInstances(w, now); err != nil {
			return err
		}
	}
	if err := s.writePaths(w); err != nil {
		return err
	}
	if len(s.Scripts) > 0 {
		if err := s.writeScripts(w, now); err != nil {
			return err
		}
	}
	if err := s.writeTracked(w, now); err != nil {
		return err
	}
	s.writeConnections(w, now)
	for i := range s.VirtualServers {
		if err := s.VirtualServers[i].write(w, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Status) writeInstances(w io.Writer, now time.Time) error {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "INSTANCE\tSTATE\tPRIO\tVRID\tINTERFACE\tMASTER\tSINCE\tREASON")
	for _, i := range s.Instances {
		prio := fmt.Sprint(i.Priority)
		if i.EffectivePriority != i.Priority {
			prio = fmt.Sprintf("%d (of %d)", i.EffectivePriority, i.Priority)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d v%d\t%s\t%s\t%s\t%s\n", i.Name, i.State, prio, i.VirtualRouterID,
			i.Version, dash(i.Interface), dash(i.MasterAddress), age(now, i.Since), i.Reason)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, i := range s.Instances {
		if k := i.Keepalived; k != nil {
			fmt.Fprintf(w, "  %s: %s (%s)\n", i.Name, k.Text, k.Detail)
			for _, d := range k.Differs {
				fmt.Fprintf(w, "  %s: this file is not what keepalived does: %s\n", i.Name, d)
			}
		}
		for _, n := range i.Notes {
			fmt.Fprintf(w, "  %s: %s\n", i.Name, n)
		}
	}
	for _, g := range s.SyncGroups {
		fmt.Fprintf(w, "sync group %s is %s: %s\n", g.Name, g.State, strings.Join(g.Members, ", "))
	}
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "VIP\tINTERFACE\tINSTANCE\tHERE")
	for _, i := range s.Instances {
		for _, a := range i.Addresses {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", a.Address, a.Interface, i.Name, here(a))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	return s.writeVMACs(w)
}

// writeVMACs lists the links with a virtual MAC, if there are any.
func (s *Status) writeVMACs(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	first := true
	for _, i := range s.Instances {
		for _, l := range i.VMACs {
			if first {
				fmt.Fprintln(w)
				fmt.Fprintln(tw, "LINK\tON\tVIRTUAL MAC\tINSTANCE\tHERE")
			}
			first = false
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", l.Link, l.Parent, l.MAC, i.Name, here(Address{Present: l.Present, Error: l.Error}))
		}
	}
	return tw.Flush()
}

func here(a Address) string {
	if a.Error == "" && a.Refused {
		return yes(a.Present) + ", no_accept: packets to it are dropped"
	}
	return because(a.Present, a.Error)
}

// because says whether something is here, and why not.
func because(present bool, problem string) string {
	if problem != "" {
		return yes(present) + ": " + problem
	}
	return yes(present)
}

// writePaths lists routes and rules, and what is static.
func (s *Status) writePaths(w io.Writer) error {
	var lines [][3]string
	add := func(owner string, paths ...[]Path) {
		for _, p := range slices.Concat(paths...) {
			what := "route " + p.Route
			if p.Rule != "" {
				what = "rule " + p.Rule
			}
			lines = append(lines, [3]string{what, owner, because(p.Present, p.Error)})
		}
	}
	for _, i := range s.Instances {
		add(i.Name, i.Routes, i.Rules)
	}
	for _, a := range s.StaticAddresses {
		lines = append(lines, [3]string{"address " + a.Address + " dev " + a.Interface, "static", here(a)})
	}
	add("static", s.StaticRoutes, s.StaticRules)
	if len(lines) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "ROUTE OR RULE\tINSTANCE\tHERE")
	for _, l := range lines {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", l[0], l[1], l[2])
	}
	return tw.Flush()
}

func (s *Status) writeScripts(w io.Writer, now time.Time) error {
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SCRIPT\tSTATE\tLAST RUN\tTOOK\tDETAIL")
	for _, c := range s.Scripts {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%.1f ms\t%s\n", c.Name, c.State, age(now, c.LastRun), c.DurationMS, c.Detail)
	}
	return tw.Flush()
}

func (v *VirtualServer) write(w io.Writer, now time.Time) error {
	fmt.Fprintln(w)
	up := 0
	for _, r := range v.RealServers {
		if r.State == "UP" && !r.Sorry {
			up++
		}
	}
	real := len(v.RealServers)
	if slices.ContainsFunc(v.RealServers, func(r RealServer) bool { return r.Sorry }) {
		real--
	}
	fmt.Fprintf(w, "%s  %s  %s  %d of %d servers up", v.Service, v.Scheduler, v.State, up, real)
	if n := len(v.Services); n > 0 {
		fmt.Fprintf(w, "  %d services: %s", n, v.Services[0])
		if n > 1 {
			fmt.Fprintf(w, " … %s", v.Services[n-1])
		}
	}
	if v.Name != v.Service {
		fmt.Fprintf(w, "  (%s)", v.Name)
	}
	if v.Quorum > 1 {
		fmt.Fprintf(w, "  weight %d, quorum %d", v.LiveWeight, v.Quorum)
		if v.Hysteresis > 0 {
			fmt.Fprintf(w, " (hysteresis %d)", v.Hysteresis)
		}
	}
	switch {
	case v.Standby != "":
		fmt.Fprintf(w, "  STANDBY: %s", v.Standby)
	case !v.Present:
		fmt.Fprint(w, "  NOT IN THE KERNEL")
	}
	if v.Suspended {
		fmt.Fprint(w, "  checks suspended: its address is not here")
	}
	if v.Error != "" {
		fmt.Fprintf(w, "  error: %s", v.Error)
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  SERVER\tMETHOD\tSTATE\tWEIGHT\tACTIVE\tINACTIVE\tLAST CHECK")
	for _, r := range v.RealServers {
		state := r.State
		if r.Sorry {
			state = "sorry"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%d\t%d\t%s\n", r.Address, strings.TrimSpace(r.Method+" "+r.Tunnel), state, weight(r),
			r.ActiveConnections, r.InactiveConnections, lastCheck(r, now))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, r := range v.RealServers {
		r.writeNotes(w, now)
	}
	return nil
}

// writeNotes says why a server is not as configured.
func (r *RealServer) writeNotes(w io.Writer, now time.Time) {
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "  %s: "+format+"\n", append([]any{r.Address}, args...)...)
	}
	for _, o := range r.Overrides {
		what := o.Kind
		if o.Weight != nil {
			what = fmt.Sprintf("weight %d", *o.Weight)
		}
		say("%s by %s %s ago%s", what, o.By, age(now, o.At), until(o.Until))
	}
	switch {
	case r.Leaving && !r.Configured:
		say("configured no more; ends its connections since %s%s", age(now, r.Since), until(r.Until))
	case r.Leaving:
		say("ends its connections since %s%s", age(now, r.Since), until(r.Until))
	case len(r.Overrides) > 0 && !r.Present && (r.State == "DRAINING" || r.State == "MAINTENANCE"):
		say("drained: it is out of the kernel's table")
	}
	if r.Kept {
		say("FAILED, and stays in for min_up")
	}
	if r.Ramping {
		say("on the way to its weight (slow_start)")
	}
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", at most until " + t.Local().Format("2006-01-02 15:04:05")
}

func weight(r RealServer) string {
	switch {
	case !r.Present:
		return "out"
	case r.EffectiveWeight == r.Weight:
		return fmt.Sprint(r.Weight)
	default:
		return fmt.Sprintf("%d (of %d)", r.EffectiveWeight, r.Weight)
	}
}

func lastCheck(r RealServer, now time.Time) string {
	var parts []string
	if r.Error != "" {
		parts = append(parts, "kernel: "+r.Error)
	}
	for _, c := range r.Checks {
		switch {
		case c.Alarm != "":
			parts = append(parts, fmt.Sprintf("%s ALARM %s", c.Type, c.Alarm))
		case !c.Known, c.LastRun.IsZero(): // with alpha there is a verdict before
			parts = append(parts, c.Type+" not run yet")
		default:
			text := fmt.Sprintf("%s %s ago: %s", c.Type, age(now, c.LastRun), c.Detail)
			if c.Progress != "" {
				text += " (" + c.Progress + ")"
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

func age(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
