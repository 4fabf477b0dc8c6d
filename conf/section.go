package conf

import (
	"net/netip"
	"slices"
)

// section is one object of a Config: what TOML writes as a table, and Diff
// compares. One function for each kind of object lists its settings once
// (section_*.go), and both follow from that list.
type section struct {
	header   string // of the table in a file; "" for keys above all tables
	object   string // what Diff calls it; unique among the sections beside it
	settings []setting
	parts    []section // tables below it
}

// setting is one key. The value is a string, number, bool, time, address,
// []string (the words of a command) or one of the types below. What is empty is
// not written: "", no words, an invalid address.
type setting struct {
	key   string
	value any
}

type (
	// list is an array whose entries mean something each by itself.
	list []string
	// lines is a list that is written one entry a line.
	lines []string
	// inline is a table in one line.
	inline []setting
	// inlines is an array of tables, one a line.
	inlines []inline
	// hidden is a value that no log may show.
	hidden struct{ value any }
	// unwritten is a value that a file need not hold: it is the usual one, or
	// follows from others. Diff sees it all the same.
	unwritten struct{ value any }
)

// unless returns a value that is written only when it is not the usual one.
func unless[T comparable](value, usual T) any {
	if value == usual {
		return unwritten{value}
	}
	return value
}

// some returns a list that is written unless it is empty.
func some[L list | lines | inlines](l L) any {
	if len(l) == 0 {
		return unwritten{l}
	}
	return l
}

// written reports whether a file holds the setting.
func (s setting) written() bool {
	switch v := s.value.(type) {
	case unwritten:
		return false
	case string:
		return v != ""
	case []string:
		return len(v) > 0
	case Command:
		return len(v.Argv) > 0
	case netip.Addr:
		return v.IsValid()
	case netip.AddrPort:
		return v.IsValid()
	}
	return true
}

// sections returns all objects in the order of a file.
func (c *Config) sections() []section {
	all := []section{
		c.Place.section(),
		{object: "interfaces", settings: []setting{{"interface_up_down_delays", some(list(texts(c.LinkDelays)))}}},
		{object: "static objects", settings: []setting{
			{"static_ipaddress", some(lines(texts(c.StaticAddresses)))},
			{"static_routes", some(lines(texts(c.StaticRoutes)))},
			{"static_rules", some(lines(texts(c.StaticRules)))},
		}},
		c.Global.section(),
	}
	return slices.Concat(all,
		c.ipvsSection(),
		each(c.GARPGroups, GARPGroup.section),
		each(c.Scripts, Script.section),
		each(c.TrackFiles, TrackFile.section),
		each(c.TrackProcesses, TrackProcess.section),
		each(c.Instances, Instance.section),
		each(c.SyncGroups, SyncGroup.section),
		each(c.TrackGroups, TrackGroup.section),
		each(c.ServerGroups, ServerGroup.section),
		each(c.VirtualServers, VirtualServer.section),
	)
}

// each returns what f makes of every entry.
func each[T, R any](list []T, f func(T) R) []R {
	all := make([]R, len(list))
	for i, x := range list {
		all[i] = f(x)
	}
	return all
}

// table returns the section of an object with a name: [KIND.NAME].
func table(kind, name string, settings ...setting) section {
	return section{header: "[" + join(kind, name) + "]", object: kind + " " + name, settings: settings}
}
