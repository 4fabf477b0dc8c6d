package vmac

import (
	"fmt"
	"strconv"

	"vipd/vrrp/host"
)

// Preview is what Manager.Configure would do, and has not done.
type Preview struct {
	Text    string
	Problem bool // it could not be done
}

// Foresee tells what a Manager that has made nothing yet would do about links, with
// quiet as for Manager.Configure. It changes nothing. Settings on the links themselves,
// which go with them, are not listed.
func Foresee(links []Link, quiet bool, s host.State, settings Settings) []Preview {
	var out []Preview
	for _, l := range links {
		what := fmt.Sprintf("the link %s with the virtual MAC %s on %s", l.Name, macText(l.MAC), l.Parent)
		v := judge(l, s, func(*host.Link) bool { return false })
		switch {
		case v.problem != "":
			out = append(out, Preview{fmt.Sprintf("could not make %s now: %s", what, v.problem), true})
		case v.remove != nil:
			out = append(out, Preview{"would make " + what + " anew: that of another program is there", false})
		default:
			out = append(out, Preview{"would make " + what, false})
		}
	}
	for _, w := range onOthers(links, s, quiet && len(links) > 0) {
		value := strconv.Itoa(w.value)
		switch have, err := settings.Get(w.path); {
		case err != nil:
			out = append(out, Preview{fmt.Sprintf("could not set %s to %s: %v", w.path, value, err), true})
		case w.satisfied(have):
			out = append(out, Preview{fmt.Sprintf("would leave %s = %s as it is", w.path, have), false})
		default:
			out = append(out, Preview{fmt.Sprintf("would set %s from %s to %s", w.path, have, value), false})
		}
	}
	return out
}
