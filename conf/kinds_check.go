package conf

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// The kinds of values of checks.
var (
	pemKind          = &kind{"pem", `the path of a PEM file ("/etc/vipd/ca.pem"), or its text ("-----BEGIN …")`, []string{"type", "syntax", "file"}, parsePEM}
	regexOptionsKind = &kind{"regex options", "words of PCRE2 with blanks between (\"caseless dotall\")", []string{"type", "word"}, parseRegexOptions}
	domainKind       = &kind{"domain", `a domain name ("www.example.com", ".")`, []string{"type", "syntax"}, parseDomain}
	recordsKind      = &kind{"records", `a string or an array of strings ("192.0.2.1", "10 mail.example.com.")`, []string{"type", "syntax"}, parseRecords}
)

// parsePEM reads a PEM text, in place or from a file, and keeps its blocks alone.
func parsePEM(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	what := "the text"
	if !strings.HasPrefix(strings.TrimSpace(s), "-----BEGIN ") {
		if !path.IsAbs(s) || !printable(s) {
			return f.bad("syntax", f.shown()+" is neither an absolute path nor PEM")
		}
		content, err := f.c.content(s)
		if err != nil {
			var cause *fs.PathError
			if errors.As(err, &cause) {
				err = cause.Err
			}
			return f.badAt(f.it, f.path, "file", fmt.Sprintf("%s cannot be read: %v", s, err), "it must be there, and readable by vipd")
		}
		what, s = s, content
	}
	blocks := ""
	for block, rest := pem.Decode([]byte(s)); block != nil; block, rest = pem.Decode(rest) {
		blocks += string(pem.EncodeToMemory(block))
	}
	if blocks == "" {
		return f.bad("syntax", what+" holds no PEM block")
	}
	return blocks, true
}

// Options of PCRE2 that change what an expression means here, those that change
// nothing in RE2, and those that it cannot have.
var (
	regexMeaning = []string{"caseless", "dollar_endonly", "dotall", "firstline", "multiline", "ungreedy"}
	regexSame    = []string{"auto_callout", "dupnames", "match_unset_backref", "never_backslash_c", "never_ucp", "no_auto_capture", "no_auto_possess",
		"no_dotstar_anchor", "no_start_optimize", "use_offset_limit", "utf"}
	regexNever = []string{"allow_empty_class", "alt_bsux", "alt_circumflex", "alt_verbnames", "extended", "never_utf", "ucp"}
)

// parseRegexOptions reads regex_options and keeps the words that mean something.
func parseRegexOptions(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	var words []string
	for _, w := range strings.Fields(s) {
		switch {
		case slices.Contains(regexMeaning, w):
			words = append(words, w)
		case slices.Contains(regexSame, w):
		case slices.Contains(regexNever, w):
			return f.badAt(f.it, f.path, "word", strconv.Quote(w)+" is an option that RE2 does not have", "write the expression without it; vipd has "+strings.Join(regexMeaning, ", "))
		default:
			return f.badAt(f.it, f.path, "word", strconv.Quote(w)+" is no option"+didYouMean(w, slices.Concat(regexMeaning, regexSame)), "vipd has "+strings.Join(regexMeaning, ", "))
		}
	}
	slices.Sort(words)
	return slices.Compact(words), true
}

// dnsTypes are the types of records that can be asked for.
func dnsTypes() []string {
	never := []string{"None", "Reserved", "OPT", "TSIG", "TKEY", "IXFR", "AXFR", "MAILA", "MAILB", "NXNAME", "UNSPEC"}
	var types []string
	for name := range dns.StringToType {
		if !slices.Contains(never, name) {
			types = append(types, name)
		}
	}
	slices.Sort(types)
	return types
}

// parseDomain reads a domain name.
func parseDomain(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if _, valid := dns.IsDomainName(s); !valid || s == "" || !printable(s) || blank(s) {
		return f.bad("syntax", shown(f.it)+" is no domain name")
	}
	return s, true
}

// parseRecords reads records without saying what they mean.
func parseRecords(f field) (any, bool) {
	entries := []*item{f.it}
	if f.it.kind == arrayItem {
		entries = f.it.list
	}
	var all []string
	for _, e := range entries {
		s, ok := e.value.(string)
		if !ok {
			return field{f.c, f.b, f.k, e, f.path}.wrongType("string")
		}
		if strings.TrimSpace(s) == "" || len(s) > 4096 || !printable(s) {
			return f.badAt(e, f.path, "syntax", shown(e)+" is no record", f.k.must())
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return f.bad("syntax", "is empty")
	}
	return all, true
}
