package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// namesKind is a list of names of other tables.
var namesKind = &kind{"names", `an array of names (["VI_1", "VI_2"])`, []string{"type", "syntax", "twice"}, parseNames}

// entry is one name of a list.
type entry struct {
	name string
	it   *item
	path string
}

// parseNames reads a list of names.
func parseNames(f field) (any, bool) {
	return parseEntries(f, field.name, func(e entry) string { return strconv.Quote(e.name) })
}

// name reads one entry.
func (f field) name() (entry, bool) {
	name, ok := f.it.value.(string)
	switch {
	case !ok:
		f.wrongType("string")
	case !validName(name):
		ok = false
		f.bad("syntax", shown(f.it)+" cannot be a name")
	}
	return entry{name, f.it, f.path}, ok
}

// membership notes which instance is in which group. It comes before the instances
// are built, for they take the trackers of their group.
func (b *builder) membership(groups []*values) {
	b.groupOf, b.tracks = map[string]*values{}, map[*values]trackLists{}
	for _, v := range groups {
		b.tracks[v] = trackLists{
			interfaces: trackLinks(v),
			scripts:    b.trackRefs(v, "track_script", "vrrp_script", b.scripts),
			files:      b.trackRefs(v, "track_file", "vrrp_track_file", b.files),
			processes:  b.trackRefs(v, "track_process", "vrrp_track_process", b.processes),
		}
		members := get[[]entry](v, "group")
		if len(members) == 1 && !v.wrong("group") {
			b.say(Warning, v, "group", "vrrp_sync_group.group/single", "a group of one moves nothing together", "name a second member, or take the table out")
		}
		if len(members) == 0 && v.has("group") {
			b.say(Error, v, "group", "vrrp_sync_group.group/none", "the group has no members", "name at least two vrrp_instance tables, or take the table out")
		}
		for _, e := range members {
			if other := b.groupOf[e.name]; other != nil {
				b.sayAt(Error, e.it, e.path, "vrrp_sync_group.group/taken", fmt.Sprintf("%q is in vrrp_sync_group %q already", e.name, other.name), "an instance can be in one group; take it out of one of the two, or make them one group")
				continue
			}
			b.groupOf[e.name] = v
		}
	}
}

// syncGroups settles the sync groups once all instances are known.
func (b *builder) syncGroups(groups []*values) {
	for _, v := range groups {
		g := SyncGroup{Name: v.name, Notify: commands(v), Alert: b.alert(v, alertVRRP, false)}
		var members []*Instance
		for _, e := range get[[]entry](v, "group") {
			i := slices.IndexFunc(b.config.Instances, func(in Instance) bool { return in.Name == e.name })
			if i < 0 {
				if !b.unclear {
					b.noInstance(e, "vrrp_sync_group.group/unknown")
				}
				continue
			}
			if b.groupOf[e.name] == v {
				g.Members = append(g.Members, e.name)
				members = append(members, &b.config.Instances[i])
			}
		}
		b.config.SyncGroups = append(b.config.SyncGroups, g)
		b.owners(v, members)
		b.share(v, members)
		for _, in := range members {
			in.SyncGroup = v.name
		}
	}
}

// noInstance reports a member that does not exist.
func (b *builder) noInstance(e entry, rule string) {
	var names []string
	for _, in := range b.config.Instances {
		names = append(names, in.Name)
	}
	detail := "define it: [" + join("vrrp_instance", e.name) + "]"
	if len(names) > 0 {
		detail += "\ndefined are " + strings.Join(names[:min(len(names), 20)], ", ")
	}
	b.sayAt(Error, e.it, e.path, rule, fmt.Sprintf("there is no vrrp_instance %q", e.name)+didYouMean(e.name, names), detail)
}

// owners checks that all members own their addresses, or none.
func (b *builder) owners(v *values, members []*Instance) {
	for _, in := range members {
		if first := members[0]; (in.Priority == 255) != (first.Priority == 255) {
			b.say(Error, v, "group", "vrrp_sync_group.group/owner", fmt.Sprintf("%q has priority %d and %q has %d", first.Name, first.Priority, in.Name, in.Priority),
				"255 means that this machine owns the addresses and takes them at once, which the others cannot; write 255 for all members, or for none")
			return
		}
	}
}

// trackLists are the lists of trackers of an instance, or of a group.
type trackLists struct{ interfaces, scripts, files, processes []TrackRef }

// lists returns the lists of an instance, and those of a group in the same order.
func (t trackLists) lists(in *Instance) (mine []*[]TrackRef, groups [][]TrackRef) {
	return []*[]TrackRef{&in.TrackInterfaces, &in.TrackScripts, &in.TrackFiles, &in.TrackProcesses},
		[][]TrackRef{t.interfaces, t.scripts, t.files, t.processes}
}

// missing returns the entries of more whose names list does not have.
func missing(list, more []TrackRef) []TrackRef {
	return slices.DeleteFunc(slices.Clone(more), func(t TrackRef) bool {
		return slices.ContainsFunc(list, func(o TrackRef) bool { return o.Name == t.Name })
	})
}

// joinTracks adds what the group of an instance tracks.
func (b *builder) joinTracks(v *values, in *Instance) {
	mine, groups := b.tracks[b.groupOf[v.name]].lists(in)
	for i, list := range mine {
		*list = append(*list, missing(*list, groups[i])...)
	}
}

// share makes what the group or one member tracks count for all members.
func (b *builder) share(v *values, members []*Instance) {
	_, groups := b.tracks[v].lists(&Instance{})
	for i, group := range groups {
		all := slices.Clone(group)
		by := make([]string, len(all))
		for j := range by {
			by[j] = "the group"
		}
		for _, in := range members {
			mine, _ := trackLists{}.lists(in)
			for _, t := range *mine[i] {
				j := slices.IndexFunc(all, func(o TrackRef) bool { return o.Name == t.Name })
				switch {
				case j < 0:
					all, by = append(all, t), append(by, strconv.Quote(in.Name))
				case all[j] != t:
					b.say(Error, v, "group", "vrrp_sync_group.group/weight", fmt.Sprintf("%s tracks %q, and %q tracks %q", by[j], all[j], in.Name, t),
						"the members of a group share their trackers, and each counts once; give it the same weight everywhere, or track it in the group only")
				}
			}
		}
		for _, in := range members {
			mine, _ := trackLists{}.lists(in)
			*mine[i] = append(*mine[i], missing(*mine[i], all)...)
		}
	}
}
