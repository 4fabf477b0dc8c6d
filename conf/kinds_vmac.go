package conf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The kinds of values that concern links with a virtual MAC.
var (
	vmacKind   = &kind{"vmac", `true, or "[[name] LINK] [MAC] [group N] [netlink_notify_msg]", or { name = "LINK", mac = "MAC", group = N, netlink_notify_msg = true }`, []string{"type", "syntax", "name", "address", "range", "twice"}, parseVMAC}
	prefixKind = &kind{"prefix", "1..9 characters that may begin the name of an interface", []string{"type", "syntax"}, parsePrefix}
)

// prefixMax is how long a prefix may be: with digit, dot and VRID the name has up to 15 characters.
const prefixMax = 9

// parsePrefix reads the beginning of interface names.
func parsePrefix(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if len(s) > prefixMax || !validInterface(s) {
		return f.bad("syntax", shown(f.it)+" cannot begin the name of an interface")
	}
	return s, true
}

// parseVMAC reads use_vmac: a *UseVMAC, nil for false.
func parseVMAC(f field) (any, bool) {
	if on, ok := f.it.value.(bool); ok {
		if on {
			return &UseVMAC{Group: parentGroup}, true
		}
		return (*UseVMAC)(nil), true
	}
	words, ok := f.vmacWords()
	if !ok {
		return nil, false
	}
	if len(words) == 0 {
		return f.bad("syntax", "is empty; write true")
	}
	u := &UseVMAC{Group: parentGroup}
	seen := map[string]bool{}
	for len(words) > 0 {
		part, n := vmacPart(words)
		if seen[part] {
			return f.bad("twice", "has more than one "+part)
		}
		seen[part] = true
		if n > len(words) {
			return f.bad("syntax", strconv.Quote(words[0])+" needs a value after it")
		}
		if !f.vmacOption(u, part, words[n-1]) {
			return nil, false
		}
		words = words[n:]
	}
	return u, true
}

// vmacWords returns the words of use_vmac.
func (f field) vmacWords() ([]string, bool) {
	if s, ok := f.it.value.(string); ok {
		return strings.Fields(s), true
	}
	if f.it.kind != tableItem {
		f.wrongType("string")
		return nil, false
	}
	var words []string
	for _, entry := range f.it.keys {
		switch v := entry.it.value.(type) {
		case string:
			if entry.name == "name" && v != "" && !blank(v) {
				words = append(words, "name", v)
				continue
			}
			if entry.name == "mac" && v != "" && !blank(v) {
				words = append(words, v)
				continue
			}
		case int64:
			if entry.name == "group" {
				words = append(words, "group", strconv.FormatInt(v, 10))
				continue
			}
		case bool:
			if entry.name == "netlink_notify_msg" {
				if v {
					words = append(words, entry.name)
				}
				continue
			}
		}
		f.badAt(entry.it, join(f.path, entry.name), "syntax", shown(entry.it)+" does not fit here", f.k.must())
		return nil, false
	}
	if len(words) == 0 { // {}: as true
		words = []string{"group", strconv.Itoa(parentGroup)}
	}
	return words, true
}

// vmacPart says what the first word begins, and of how many words that is; the last of them is the value.
func vmacPart(words []string) (string, int) {
	switch {
	case words[0] == "name" || words[0] == "group":
		return words[0], 2
	case words[0] == "netlink_notify_msg":
		return words[0], 1
	case strings.Count(words[0], ":") >= 2:
		return "MAC", 1
	}
	return "name", 1
}

// vmacOption takes one part of use_vmac.
func (f field) vmacOption(u *UseVMAC, part, value string) bool {
	switch part {
	case "name":
		if !validInterface(value) {
			f.badAt(f.it, f.path, "name", strconv.Quote(value)+" cannot be the name of a link", "must be "+interfaceKind.allowed)
			return false
		}
		u.Name = value
	case "MAC":
		if !u.parseMAC(value) {
			f.badAt(f.it, f.path, "address", strconv.Quote(value)+" is no MAC of one machine", "must be 6 pairs of hexadecimal digits, the first one even (\"02:00:5e:00:01:33\"), or 5: the VRID is then the last one")
			return false
		}
	case "group":
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
			f.bad("syntax", strconv.Quote(value)+" is no group of interfaces")
			return false
		case n < parentGroup || n > math.MaxInt32:
			f.bad("range", fmt.Sprintf("group %d is out of range 0..%d", n, math.MaxInt32))
			return false
		}
		u.Group = int(n)
	case "netlink_notify_msg":
		u.Notify = true
	}
	return true
}

// parseMAC reads a MAC of 6 octets, or of 5 to which the VRID is to be added.
func (u *UseVMAC) parseMAC(s string) bool {
	parts := strings.Split(s, ":")
	if len(parts) != 5 && len(parts) != 6 {
		return false
	}
	u.MAC, u.short = MAC{}, len(parts) == 5
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 16, 8)
		if err != nil || len(p) > 2 {
			return false
		}
		u.MAC[i] = byte(n)
	}
	return u.MAC[0]&1 == 0 && u.MAC != MAC{}
}
