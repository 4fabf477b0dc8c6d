package conf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The kinds of values that concern announcements.
var (
	interfacesKind = &kind{"interfaces", `an array of interface names (["eth0", "eth1"])`, []string{"type", "syntax", "twice"}, parseInterfaces}
	extraKind      = &kind{"extra", `a time 0..1d, "[all] TIME" ("all 100"), or { all = true, interval = TIME }`, []string{"type", "syntax", "range"}, parseExtra}
)

// garpForms are the words of garp_form.
var garpForms = []string{"request", "reply", "both"}

// parseInterfaces reads a list of interface names.
func parseInterfaces(f field) (any, bool) {
	return parseEntries(f, field.device, func(e entry) string { return strconv.Quote(e.name) })
}

// device reads one entry.
func (f field) device() (entry, bool) {
	name, ok := f.it.value.(string)
	switch {
	case !ok:
		f.wrongType("string")
	case !validInterface(name):
		ok = false
		f.bad("syntax", shown(f.it)+" cannot be the name of an interface")
	}
	return entry{name, f.it, f.path}, ok
}

// extra is the value of garp_extra_if.
type extra struct {
	every time.Duration
	all   bool
}

// parseExtra reads garp_extra_if.
func parseExtra(f field) (any, bool) {
	x := extra{}
	at := f
	if f.it.kind == tableItem {
		found := false
		for _, e := range f.it.keys {
			all, flag := e.it.value.(bool)
			switch {
			case e.name == "interval":
				at, found = field{f.c, f.b, f.k, e.it, join(f.path, e.name)}, true
			case e.name == "all" && flag:
				x.all = all
			case e.name == "all":
				return f.badAt(e.it, join(f.path, e.name), "type", shown(e.it)+" does not fit here", f.k.must())
			default:
				return f.badAt(e.it, join(f.path, e.name), "syntax", strconv.Quote(e.name)+" is not known here"+didYouMean(e.name, []string{"all", "interval"}), f.k.must())
			}
		}
		if !found {
			return f.bad("syntax", "interval is missing")
		}
	} else if s, ok := f.it.value.(string); ok {
		words := strings.Fields(s)
		if x.all = len(words) > 0 && words[0] == "all"; x.all {
			words = words[1:]
		}
		if len(words) != 1 {
			return f.bad("syntax", shown(f.it)+" is no time")
		}
		it := *f.it
		it.value = words[0]
		if n, err := strconv.ParseFloat(words[0], 64); err == nil {
			it.value = n
		}
		at.it = &it
	}
	var ok bool
	if x.every, ok = at.duration(); !ok {
		return nil, false
	}
	if x.every < 0 || x.every > 24*time.Hour {
		return f.badAt(at.it, at.path, "range", fmt.Sprintf("%s is out of range", shown(at.it)), f.k.must())
	}
	return x, true
}
