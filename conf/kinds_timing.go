package conf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of values that concern time and election.
var (
	delaysKind = &kind{"delays", `an array of "IF DOWN [UP]", times of 0..255 s ("eth0 1 5"), or { interface = "IF", down = TIME, up = TIME }`, []string{"type", "syntax", "range", "twice"}, parseDelays}
	lateKind   = &kind{"late", "true, false, or a priority 1..254", []string{"type", "range"}, parseLate}
)

// latestPriority is the priority that timer_expired_backup assumes of the others.
const latestPriority = 254

// parseLate reads timer_expired_backup: the priority, 0 for off.
func parseLate(f field) (any, bool) {
	switch v := f.it.value.(type) {
	case bool:
		if v {
			return int64(latestPriority), true
		}
		return int64(0), true
	case int64:
		if v < 1 || v > latestPriority {
			return f.bad("range", fmt.Sprintf("%d is out of range", v))
		}
		return v, true
	}
	return f.wrongType("number")
}

// linkDelay is one entry of interface_up_down_delays.
type linkDelay struct {
	LinkDelay
	it   *item
	path string
}

// parseDelays reads interface_up_down_delays.
func parseDelays(f field) (any, bool) {
	return parseEntries(f, field.delay, func(d linkDelay) string { return strconv.Quote(d.Interface) })
}

// delay reads one entry.
func (f field) delay() (linkDelay, bool) {
	d := linkDelay{it: f.it, path: f.path}
	var times []field
	var ok bool
	if f.it.kind == tableItem {
		d.Interface, times, ok = f.delayTable()
	} else {
		d.Interface, times, ok = f.delayWords()
	}
	if !ok {
		return d, false
	}
	if !validInterface(d.Interface) || len(times) < 1 || len(times) > 2 {
		f.bad("syntax", shown(f.it)+" is no interface with one or two times")
		return d, false
	}
	for i, t := range times {
		n, ok := t.duration()
		if !ok {
			return d, false
		}
		if n < 0 || n > 255*time.Second {
			f.bad("range", shown(t.it)+" is out of range")
			return d, false
		}
		if i == 0 {
			d.Down = n.Round(time.Microsecond)
		}
		d.Up = n.Round(time.Microsecond)
	}
	return d, true
}

// delayTable takes an entry apart that is an inline table.
func (f field) delayTable() (dev string, times []field, ok bool) {
	var down, up *item
	for _, entry := range f.it.keys {
		switch entry.name {
		case "interface":
			dev, _ = entry.it.value.(string)
		case "down":
			down = entry.it
		case "up":
			up = entry.it
		default:
			f.badAt(entry.it, join(f.path, entry.name), "syntax", strconv.Quote(entry.name)+" is not known here"+didYouMean(entry.name, []string{"interface", "down", "up"}), f.k.must())
			return dev, nil, false
		}
	}
	if down == nil {
		return dev, nil, true
	}
	for _, it := range []*item{down, up} {
		if it != nil {
			times = append(times, field{f.c, f.b, f.k, it, f.path})
		}
	}
	return dev, times, true
}

// delayWords takes one apart that is a line of keepalived's.
func (f field) delayWords() (dev string, times []field, ok bool) {
	s, ok := f.it.value.(string)
	if !ok {
		f.wrongType("string")
		return "", nil, false
	}
	for i, w := range strings.Fields(s) {
		if i == 0 {
			dev = w
			continue
		}
		it := *f.it
		it.value = w
		if n, err := strconv.ParseFloat(w, 64); err == nil {
			it.value = n
		}
		times = append(times, field{f.c, f.b, f.k, &it, f.path})
	}
	return dev, times, true
}

// cpusKind is a set of processors.
var cpusKind = &kind{"cpus", `numbers of processors 0..1023 ("0 2", [0, 2] or 0)`, []string{"type", "syntax", "range"}, parseCPUs}

// maxCPU is the highest number of a processor that a kernel's set holds.
const maxCPU = 1023

// parseCPUs reads the numbers of processors, and sorts them.
func parseCPUs(f field) (any, bool) {
	var all []int
	add := func(n int64, it *item, path string) bool {
		if n < 0 || n > maxCPU {
			f.badAt(it, path, "range", fmt.Sprintf("%d is out of range", n), f.k.must())
			return false
		}
		all = append(all, int(n))
		return true
	}
	switch v := f.it.value.(type) {
	case int64:
		if !add(v, f.it, f.path) {
			return nil, false
		}
	case string:
		for _, w := range strings.Fields(v) {
			n, err := strconv.ParseInt(w, 10, 64)
			if err != nil {
				return f.bad("syntax", strconv.Quote(w)+" is no number of a processor")
			}
			if !add(n, f.it, f.path) {
				return nil, false
			}
		}
	default:
		if f.it.kind != arrayItem {
			return f.bad("type", shown(f.it)+" does not fit here")
		}
		for i, e := range f.it.list {
			path := f.path + "[" + strconv.Itoa(i) + "]"
			n, ok := e.value.(int64)
			if !ok {
				return f.badAt(e, path, "type", shown(e)+" is no whole number", f.k.must())
			}
			if !add(n, e, path) {
				return nil, false
			}
		}
	}
	if len(all) == 0 {
		return f.bad("syntax", "no processor is named")
	}
	slices.Sort(all)
	return slices.Compact(all), true
}
