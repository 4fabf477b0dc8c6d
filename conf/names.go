package conf

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// nameDirs are where iproute2 keeps its names of numbers. The first that has a name
// is right.
var nameDirs = []string{"etc/iproute2", "usr/share/iproute2", "usr/lib/iproute2"}

// The names that the kernel's headers give.
var (
	tableNames = map[string]uint32{"default": 253, "main": mainTable, "local": 255}
	protoNames = map[string]uint32{"redirect": 1, "kernel": 2, "boot": 3, "static": 4, "ra": 9, "zebra": 11, "bird": 12,
		"dhcp": 16, "keepalived": ownProtocol, "babel": 42, "bgp": 186, "isis": 187, "ospf": 188, "rip": 189, "eigrp": 192}
	scopeNames = map[string]uint32{"global": 0, "site": 200, "link": scopeLink, "host": scopeHost, "nowhere": 255}
	ipProtos   = map[string]uint32{"icmp": 1, "tcp": 6, "udp": 17, "esp": 50, "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "sctp": 132}
)

// Numbers of rtnetlink.
const (
	mainTable   = 254
	ownProtocol = 18 // RTPROT_KEEPALIVED
	scopeLink   = 253
	scopeHost   = 254
)

// nameFile is one file of names.
type nameFile struct {
	name  string // rt_tables
	known map[string]uint32
	base  int    // of numbers written without 0x
	end   uint64 // the first number that is too large
}

var (
	tableFile = nameFile{"rt_tables", tableNames, 10, 1 << 32}
	protoFile = nameFile{"rt_protos", protoNames, 10, 1 << 8}
	scopeFile = nameFile{"rt_scopes", scopeNames, 10, 1 << 8}
	tosFile   = nameFile{"rt_dsfield", nil, 16, 1 << 8}
)

// number returns the number that a word stands for: written out, or a name of the
// kernel or of iproute2's files.
func (l *loader) number(f nameFile, word string) (uint32, bool) {
	if n, ok := f.known[word]; ok {
		return n, true
	}
	if n, ok := f.parse(word); ok {
		return n, true
	}
	n, ok := l.names(f)[word]
	return n, ok
}

// parse reads a number.
func (f nameFile) parse(word string) (uint32, bool) {
	base := f.base
	if hex, ok := strings.CutPrefix(word, "0x"); ok {
		word, base = hex, 16
	}
	n, err := strconv.ParseUint(word, base, 32)
	return uint32(n), err == nil && n < f.end
}

// names returns what the files of this machine say. A file that is missing has no names.
func (l *loader) names(f nameFile) map[string]uint32 {
	if names, ok := l.ipNames[f.name]; ok {
		return names
	}
	names := map[string]uint32{}
	for _, dir := range nameDirs {
		files := []string{path.Join(dir, f.name)}
		more, err := fs.Glob(l.fsys, path.Join(dir, f.name+".d", "*.conf"))
		if err == nil {
			files = append(files, more...)
		}
		for _, file := range files {
			text, err := fs.ReadFile(l.fsys, file)
			if err != nil {
				continue // then the name is unknown, and the error about that names the files
			}
			f.read(string(text), names)
		}
	}
	if l.ipNames == nil {
		l.ipNames = map[string]map[string]uint32{}
	}
	l.ipNames[f.name] = names
	return names
}

// read adds the lines "NUMBER NAME" of a file to names.
func (f nameFile) read(text string, names map[string]uint32) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		n, ok := nameFile{base: 10, end: f.end}.parse(words[0])
		if _, known := names[words[1]]; ok && !known {
			names[words[1]] = n
		}
	}
}

// unknownName says what to do about a word that is no number and no name.
func (l *loader) unknownName(f nameFile, word string) string {
	names := l.names(f)
	var all []string
	for _, m := range []map[string]uint32{f.known, names} {
		for name := range m {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	where := "/" + nameDirs[0] + "/" + f.name
	text := "write its number, or add the name to " + where
	if len(all) > 0 {
		text += "; known are " + strings.Join(all[:min(len(all), 30)], ", ")
	}
	return text + didYouMean(word, all)
}
