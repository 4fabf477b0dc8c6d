package conf

import (
	"fmt"
	"strconv"
	"strings"
)

// The kinds of values of instances and scripts.
var (
	weightKind  = &kind{"weight", "", []string{"type", "syntax", "range"}, parseWeight}
	tracksKind  = &kind{"tracks", "", []string{"type", "syntax", "range", "twice"}, parseTracks}
	commandKind = &kind{"command", `a string ("/usr/local/bin/check --fast") or an array of words (["/bin/sh", "-c", "…"])`, []string{"type", "syntax", "shell"}, parseCommand}
)

// weight is the weight of a tracker.
type weight struct {
	n       int
	reverse bool
}

// turns are the words that turn the sign of a weight, or say that nothing does:
// a line of track_script can so undo the "reverse" of the script.
var turns = map[string]bool{"reverse": true, "noreverse": false, "no_reverse": false}

// parseWeight reads the weight of a script.
func parseWeight(f field) (any, bool) {
	w := weight{}
	n := int64(0)
	switch v := f.it.value.(type) {
	case int64:
		n = v
	case string:
		words := strings.Fields(v)
		var err error
		if len(words) > 0 {
			n, err = strconv.ParseInt(words[0], 10, 32)
		}
		if len(words) == 2 {
			known := false
			if w.reverse, known = turns[words[1]]; !known {
				err = strconv.ErrSyntax
			}
		} else if len(words) != 1 {
			err = strconv.ErrSyntax
		}
		if err != nil {
			return f.bad("syntax", shown(f.it)+" is no weight")
		}
	default:
		return f.wrongType("number")
	}
	if n < f.k.min || n > f.k.max {
		return f.bad("range", fmt.Sprintf("%d is out of range", n))
	}
	w.n = int(n)
	return w, true
}

// track is one line of track_interface, track_script, track_file or track_process.
type track struct {
	name     string
	weight   weight
	turned   bool // reverse or noreverse was given
	numbered bool // a weight was given
	it       *item
	path     string
}

// parseTracks reads track_interface or track_script.
func parseTracks(f field) (any, bool) {
	return parseEntries(f, field.track, func(t track) string { return strconv.Quote(t.name) })
}

// track reads one entry.
func (f field) track() (track, bool) {
	t := track{it: f.it, path: f.path}
	words, ok := f.words("name", "reverse", "noreverse")
	if !ok {
		return t, false
	}
	if len(words) == 0 {
		f.bad("syntax", "is empty")
		return t, false
	}
	t.name = words[0]
	for words = words[1:]; len(words) > 0; words = words[1:] {
		switch words[0] {
		case "reverse", "noreverse", "no_reverse":
			t.weight.reverse, t.turned = turns[words[0]], true
		case "weight":
			if len(words) < 2 {
				f.bad("syntax", `"weight" needs a number after it`)
				return t, false
			}
			n, err := strconv.ParseInt(words[1], 10, 32)
			if err != nil {
				f.bad("syntax", strconv.Quote(words[1])+" is no weight")
				return t, false
			}
			if n < f.k.min || n > f.k.max {
				f.bad("range", fmt.Sprintf("weight %d is out of range", n))
				return t, false
			}
			t.weight.n, t.numbered = int(n), true
			words = words[1:]
		default:
			f.bad("syntax", strconv.Quote(words[0])+" is not known here"+didYouMean(words[0], []string{"weight", "reverse"}))
			return t, false
		}
	}
	return t, true
}
