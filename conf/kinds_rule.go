package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ruleFlags are the options of rules without a value.
var ruleFlags = []string{"not", "l3mdev", "blackhole", "unreachable", "prohibit", "no_track", "inet", "inet6"}

// ruleOptions are those with one, with all their spellings.
var ruleOptions = map[string]string{
	"from": "from", "to": "to", "iif": "iif", "dev": "iif", "oif": "oif", "tos": "tos", "dsfield": "tos", "fwmark": "fwmark", "table": "table", "lookup": "table",
	"priority": "priority", "preference": "priority", "pref": "priority", "order": "priority", "goto": "goto", "ipproto": "ipproto", "ip_proto": "ipproto", "sport": "sport", "dport": "dport",
	"suppress_prefixlength": "suppress_prefixlength", "sup_pl": "suppress_prefixlength", "uidrange": "uidrange", "protocol": "protocol", "track_group": "track_group",
}

// ruleInstead are words of iproute2 that few need.
var ruleInstead = []string{"realms", "realm", "tun_id", "suppress_ifgroup", "sup_group", "nat", "map-to", "nop", "type"}

// ruleEntry is one line of rules.
type ruleEntry struct {
	Rule
	prioritised bool
	it          *item
	path        string
}

// parseRules reads virtual_rules or static_rules.
func parseRules(f field) (any, bool) { return parseEntries(f, field.ruleLine, nil) }

// ruleLine reads one entry.
func (f field) ruleLine() (ruleEntry, bool) {
	r := ruleEntry{Rule: Rule{SuppressPrefix: -1, Protocol: ownProtocol}, it: f.it, path: f.path}
	words, ok := f.tableWords(ruleFlags)
	if !ok {
		return r, false
	}
	l := &routeLine{field: f, words: words, seen: map[string]bool{}}
	for len(l.words) > 0 {
		word := l.words[0]
		l.words = l.words[1:]
		if !l.ruleWord(&r, word) {
			return r, false
		}
	}
	return r, l.finishRule(&r)
}

// ruleWord reads one word and what belongs to it.
func (l *routeLine) ruleWord(r *ruleEntry, word string) bool {
	option, valued := ruleOptions[word]
	switch {
	case slices.Contains(ruleInstead, word):
		l.badAt(l.it, l.path, "instead", strconv.Quote(word)+" is an option of rules that vipd does not have",
			"add such a rule with \"ip rule\" in a script that notify_master names, and remove it in those of notify_backup, notify_fault and notify_stop")
		return false
	case word == "no_track" && l.static(), option == "track_group" && !l.static(), !valued && !slices.Contains(ruleFlags, word):
		names := slices.Concat(ruleFlags, []string{"from", "to", "iif", "oif", "tos", "fwmark", "table", "lookup", "priority", "preference", "goto", "ipproto", "sport", "dport", "suppress_prefixlength", "uidrange", "protocol"})
		last := "no_track"
		if l.static() {
			last = "track_group"
		}
		l.badAt(l.it, l.path, "option", strconv.Quote(word)+" is no option of a rule here"+didYouMean(word, names),
			"options are not, from, to, iif, oif, tos, fwmark N/MASK, ipproto, sport, dport, uidrange, table, l3mdev, goto, blackhole, unreachable, prohibit, suppress_prefixlength, priority, protocol, inet, inet6, "+last)
		return false
	case valued:
		return l.ruleOption(r, option, word)
	}
	switch word {
	case "not":
		r.Not = true
	case "no_track":
		r.NoTrack = true
	case "inet", "inet6":
		l.family = map[string]int{"inet": 4, "inet6": 6}[word]
	default:
		return l.action(r, word)
	}
	return true
}

// action notes what the rule does.
func (l *routeLine) action(r *ruleEntry, word string) bool {
	if word == "l3mdev" {
		word = "table"
	}
	if r.Action != "" {
		l.badAt(l.it, l.path, "action", "the rule does two things", "give one of table, l3mdev, goto, blackhole, unreachable, prohibit")
		return false
	}
	r.Action = word
	return true
}

// ruleOption reads an option with a value.
func (l *routeLine) ruleOption(r *ruleEntry, option, word string) bool {
	if l.seen[option] {
		l.bad("option", strconv.Quote(word)+" is given twice")
		return false
	}
	l.seen[option] = true
	v, ok := l.value(word)
	if !ok {
		return false
	}
	number := func(bits int) uint32 {
		n, err := strconv.ParseUint(v, 0, bits)
		if ok = err == nil; !ok {
			l.wrong(word, v, fmt.Sprintf("0..%d", uint64(1)<<bits-1))
		}
		return uint32(n)
	}
	switch option {
	case "from":
		r.From, ok = l.side(word, v)
	case "to":
		r.To, ok = l.side(word, v)
	case "iif", "oif":
		if ok = validInterface(v); !ok {
			return l.wrong(word, v, interfaceKind.allowed)
		}
		if option == "iif" {
			r.IIF = v
		} else {
			r.OIF = v
		}
	case "tos":
		return l.named(tosFile, word, v, func(n uint32) { r.TOS = uint8(n) })
	case "protocol":
		return l.named(protoFile, word, v, func(n uint32) { r.Protocol = uint8(n) })
	case "table":
		return l.action(r, "table") && l.named(tableFile, word, v, func(n uint32) { r.Table = n })
	case "goto":
		r.Goto = number(32)
		return ok && l.action(r, "goto")
	case "priority":
		r.Priority, r.prioritised = number(32), true
	case "suppress_prefixlength":
		r.SuppressPrefix = int(number(7))
	case "fwmark":
		return l.mark(r, v)
	case "ipproto":
		if n, known := ipProtos[strings.ToLower(v)]; known {
			r.IPProto = uint8(n)
			return true
		}
		r.IPProto = uint8(number(8))
	case "sport", "dport", "uidrange":
		return l.span(r, option, v)
	case "track_group":
		if ok = validName(v); !ok {
			return l.wrong(word, v, "the name of a track_group")
		}
		r.TrackGroup = v
	}
	return ok
}

// side reads from or to.
func (l *routeLine) side(option, v string) (netip.Prefix, bool) {
	if v == "all" || v == "any" || v == "default" {
		return netip.Prefix{}, true
	}
	p, ok := network(v)
	if !ok {
		return p, l.wrong(option, v, "a network, or all")
	}
	if p.Bits() == 0 { // says the family alone
		six := p.Addr().Is6()
		if l.family = 4; six {
			l.family = 6
		}
		return netip.Prefix{}, true
	}
	return p, true
}

// mark reads "N[/MASK]".
func (l *routeLine) mark(r *ruleEntry, v string) bool {
	text, mask, masked := strings.Cut(v, "/")
	n, err := strconv.ParseUint(text, 0, 32)
	m, maskErr := uint64(1<<32-1), error(nil)
	if masked {
		m, maskErr = strconv.ParseUint(mask, 0, 32)
	}
	if err != nil || maskErr != nil || m == 0 {
		return l.wrong("fwmark", v, "N or N/MASK, decimal or 0x…")
	}
	r.Mark, r.Mask = uint32(n), uint32(m)
	return true
}

// span reads "N" or "FROM-TO".
func (l *routeLine) span(r *ruleEntry, option, v string) bool {
	first, last, ranged := strings.Cut(v, "-")
	if !ranged {
		last = first
	}
	bits, least := 16, uint64(1)
	if option == "uidrange" {
		bits, least = 32, 0
	}
	a, errA := strconv.ParseUint(first, 10, bits)
	b, errB := strconv.ParseUint(last, 10, bits)
	if errA != nil || errB != nil || a < least || b < a || option != "uidrange" && b == 1<<16-1 {
		return l.wrong(option, v, fmt.Sprintf("N or FROM-TO, from %d", least))
	}
	switch option {
	case "sport":
		r.SPort = [2]uint16{uint16(a), uint16(b)}
	case "dport":
		r.DPort = [2]uint16{uint16(a), uint16(b)}
	default:
		r.UIDs, r.UID = [2]uint32{uint32(a), uint32(b)}, true
	}
	return true
}

// finishRule checks how the parts of a rule fit together.
func (l *routeLine) finishRule(r *ruleEntry) bool {
	switch {
	case l.family != 0:
		r.IPv6 = l.family == 6
	case r.From.IsValid():
		r.IPv6 = r.From.Addr().Is6()
	case r.To.IsValid():
		r.IPv6 = r.To.Addr().Is6()
	}
	for _, p := range []netip.Prefix{r.From, r.To} {
		if p.IsValid() && p.Addr().Is6() != r.IPv6 {
			l.badAt(l.it, l.path, "family", p.String()+" does not fit: the rule is "+family(r.IPv6), "from, to and inet or inet6 must be of one family")
			return false
		}
	}
	detail := ""
	switch {
	case r.Action == "":
		detail = "the rule does nothing"
	case r.Action == "goto" && r.prioritised && r.Goto <= r.Priority:
		detail = fmt.Sprintf("goto %d does not lead past the rule itself", r.Goto)
	case r.SuppressPrefix >= 0 && r.Action != "table":
		detail = "suppress_prefixlength needs a table"
	default:
		return true
	}
	l.badAt(l.it, l.path, "action", detail, "write table T, l3mdev, goto PRIORITY, blackhole, unreachable or prohibit, and what else the message asks for")
	return false
}
