package observe

import (
	"fmt"
	"slices"
	"strings"

	"vipd/cmd/internal/settings/linksysctl"
	"vipd/vrrp/host"
	"vipd/vrrp/host/fib"
	"vipd/vrrp/host/vmac"
)

// Standing is what vipd makes at its start, whatever the state of its instances.
type Standing struct {
	Links    []vmac.Link // with virtual MACs
	Quiet    bool        // disable_local_igmp
	Table    string      // the name of the nftables tables
	Settings []linksysctl.Setting
	Static   host.Set
	Hooks    []string // startup_script and the like, in words
	IPVS     []Step   // settings, timeouts, sync daemons
}

// Step is a line about something that would be done.
type Step struct {
	Text string
	Warn bool
}

// Stand tells what would be made of a configuration at the start, compared with what the
// kernel has, unless that was told already. paths are those of the static set.
func (r *Reporter) Stand(s *Standing, now host.State, paths []fib.Status, kernel vmac.Settings) {
	steps := s.steps(now, paths, kernel)
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(steps, r.standing) || r.silent {
		return
	}
	r.standing = steps
	for _, st := range steps {
		if st.Warn {
			r.log.Warn("in every state: " + st.Text)
		} else {
			r.log.Info("in every state: " + st.Text)
		}
	}
}

// steps are in the order of vipd's start.
func (s *Standing) steps(now host.State, paths []fib.Status, kernel vmac.Settings) []Step {
	var out []Step
	for _, h := range s.Hooks {
		out = append(out, Step{"would " + h, false})
	}
	for _, w := range s.Settings {
		path := "net/ipv4/conf/" + w.Dev + "/" + w.Name
		switch have, err := kernel.Get(path); {
		case err != nil:
			out = append(out, Step{fmt.Sprintf("could not set %s to %s: %v", path, w.Value, err), true})
		case have == w.Value:
			out = append(out, Step{fmt.Sprintf("would leave %s = %s as it is", path, have), false})
		default:
			out = append(out, Step{fmt.Sprintf("would set %s from %s to %s", path, have, w.Value), false})
		}
	}
	if len(s.Links) > 0 {
		names := make([]string, len(s.Links))
		for i, l := range s.Links {
			names[i] = l.Name
		}
		out = append(out, Step{fmt.Sprintf("would have group reports and router solicitations not leave by %s (nftables table %s)", few(names), s.Table), false})
	}
	for _, p := range vmac.Foresee(s.Links, s.Quiet, now, kernel) {
		out = append(out, Step{p.Text, p.Problem})
	}
	for _, a := range s.Static.Addresses {
		text := a.Prefix.String() + " to " + a.Dev
		switch {
		case now.Has(a.Dev, a.Prefix):
			out = append(out, Step{"would add " + text + " (there already)", false})
		case now.Link(a.Dev) == nil:
			out = append(out, Step{"could not add " + text + ": no such interface", true})
		default:
			out = append(out, Step{"would add " + text, false})
		}
	}
	for _, p := range paths {
		text := p.Kind() + " " + p.String()
		switch {
		case p.Present:
			out = append(out, Step{"would add " + text + " (there already)", false})
		case p.Problem != "":
			out = append(out, Step{"could not add " + text + " now: " + p.Problem, true})
		default:
			out = append(out, Step{"would add " + text, false})
		}
	}
	return append(out, s.IPVS...)
}

// paths takes what was found of routes and rules.
func (r *Reporter) paths(found map[string][]fib.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = found
}

// has reports whether a route or rule of an instance was there at the last look.
func (s *subject) has(p fib.Object) bool {
	return slices.ContainsFunc(s.found, func(f fib.Status) bool { return f.Present && f.Kind() == p.Kind() && f.String() == p.String() })
}

// paths is the step that concerns routes and rules, if there are any.
func (s *subject) paths(wanted bool) []string {
	var missing, done []string
	list := slices.Clone(s.Set.Paths)
	if !wanted {
		slices.Reverse(list) // the last added goes first
	}
	for _, p := range list {
		text := p.Kind() + " " + p.String()
		if s.has(p.Object) == wanted {
			done = append(done, text)
		} else {
			missing = append(missing, text)
		}
	}
	if len(s.Set.Paths) == 0 {
		return nil
	}
	verb := "remove "
	if wanted {
		verb = "add "
	}
	return []string{verb + apart(missing, done, wanted)}
}

// apart lists what is to be done, and apart from it what is as it should be.
func apart(missing, done []string, wanted bool) string {
	note := "there already"
	if !wanted {
		note = "not there"
	}
	switch {
	case len(done) == 0:
		return few(missing)
	case len(missing) == 0:
		return few(done) + " (" + note + ")"
	}
	return fmt.Sprintf("%s (and, %s, %s)", few(missing), note, few(done))
}

// link names an interface, with its virtual MAC if it has one.
func (s *subject) link(dev string) string {
	for _, l := range s.Links {
		if l.Name == dev {
			return fmt.Sprintf("%s (virtual MAC %x:%x:%x:%x:%x:%x on %s)", dev, l.MAC[0:1], l.MAC[1:2], l.MAC[2:3], l.MAC[3:4], l.MAC[4:5], l.MAC[5:6], l.Parent)
		}
	}
	return dev
}

// refused names the addresses that no_accept concerns.
func (s *subject) refused() string {
	list := make([]string, len(s.Set.Addresses))
	for i, a := range s.Set.Addresses {
		list[i] = a.Prefix.Addr().String()
	}
	return few(list)
}

// then appends what follows a change of state: commands, mail.
func then(text string, more []string) string {
	if len(more) == 0 {
		return text
	}
	if strings.Contains(text, ": ") {
		return text + ", " + strings.Join(more, ", ")
	}
	return text + ": " + strings.Join(more, ", ")
}
