package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of values of connections that outlive their director.
var (
	syncKind     = &kind{"sync daemon", `"INTERFACE [[inst] INSTANCE] [id 0..255] [maxlen 1..65507] [port N] [ttl 1..255] [group MULTICAST]" ("eth0 VI_1 id 5"), or a table of the same words`, []string{"type", "syntax", "range"}, parseSync}
	timeoutsKind = &kind{"timeouts", `"[tcp SECONDS] [tcpfin SECONDS] [udp SECONDS]" ("tcp 7200 udp 60"), each 1..2678400, or 0 for what the kernel has; or a table of the same words`, []string{"type", "syntax", "range"}, parseTimeouts}
	shieldKind   = &kind{"shield", "true for 3 s, false, or a time 0..30 s", []string{"type", "syntax", "range"}, parseShield}
)

// SyncDaemon is lvs_sync_daemon.
type SyncDaemon struct {
	Interface string
	Instance  string     // vrrp_instance or vrrp_sync_group whose role it has; "": both roles
	ID        int        // 0..255; of the instance's VRID unless given
	MaxLen    int        // 0: the kernel's choice
	Port      int        // 8848
	TTL       int        // 1
	Group     netip.Addr // 224.0.0.81
}

// Timeouts is lvs_timeouts; 0 keeps what the kernel has.
type Timeouts struct{ TCP, TCPFin, UDP time.Duration }

const (
	syncPort    = 8848
	timeoutMost = 31 * 24 * 3600
	shieldTime  = 3 * time.Second
	shieldMost  = 30 * time.Second
)

var (
	syncGroup    = netip.AddrFrom4([4]byte{224, 0, 0, 81})
	syncWords    = []string{"id", "maxlen", "port", "ttl", "group"}
	syncBounds   = map[string][2]int{"id": {0, 255}, "maxlen": {1, 65507}, "port": {1, 65535}, "ttl": {1, 255}}
	timeoutWords = []string{"tcp", "tcpfin", "udp"}
)

// parseSync reads lvs_sync_daemon. An id that is not given is -1.
func parseSync(f field) (any, bool) {
	words, ok := f.words("interface")
	if !ok {
		return nil, false
	}
	d := SyncDaemon{ID: -1, Port: syncPort, TTL: 1, Group: syncGroup}
	if len(words) == 0 || !validInterface(words[0]) {
		return f.bad("syntax", shown(f.it)+" names no interface")
	}
	d.Interface, words = words[0], words[1:]
	if f.it.kind != tableItem && len(words) > 0 && !slices.Contains(append(syncWords, "inst"), words[0]) {
		words = append([]string{"inst"}, words...)
	}
	seen := map[string]bool{}
	for len(words) > 0 {
		word := words[0]
		if word == "inst" || word == "instance" {
			word = "inst"
		} else if !slices.Contains(syncWords, word) {
			return f.bad("syntax", strconv.Quote(word)+" is not known here"+didYouMean(word, append(syncWords, "inst")))
		}
		if len(words) == 1 || seen[word] {
			return f.bad("syntax", strconv.Quote(word)+" needs one value, once")
		}
		seen[word] = true
		if !d.take(f, word, words[1]) {
			return nil, false
		}
		words = words[2:]
	}
	return d, true
}

// take reads one word's value.
func (d *SyncDaemon) take(f field, word, value string) bool {
	switch word {
	case "inst":
		d.Instance = value
		return true
	case "group":
		a, ok := address(value)
		if !ok || !a.IsMulticast() {
			f.bad("syntax", strconv.Quote(value)+" is no multicast address")
			return false
		}
		d.Group = a
		return true
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		f.bad("syntax", strconv.Quote(value)+" is no number for "+word)
		return false
	}
	if b := syncBounds[word]; n < b[0] || n > b[1] {
		f.bad("range", fmt.Sprintf("%s %d is out of range", word, n))
		return false
	}
	*map[string]*int{"id": &d.ID, "maxlen": &d.MaxLen, "port": &d.Port, "ttl": &d.TTL}[word] = n
	return true
}

// parseTimeouts reads lvs_timeouts.
func parseTimeouts(f field) (any, bool) {
	var words []string
	if f.it.kind == tableItem {
		for _, entry := range f.it.keys {
			n, ok := entry.it.value.(int64)
			if !ok {
				return f.badAt(entry.it, join(f.path, entry.name), "type", shown(entry.it)+" is no whole number of seconds", f.k.must())
			}
			words = append(words, entry.name, strconv.FormatInt(n, 10))
		}
	} else {
		s, ok := f.it.value.(string)
		if !ok {
			return f.wrongType("string")
		}
		words = strings.Fields(s)
	}
	if len(words) == 0 {
		return f.bad("syntax", "no timeout is given")
	}
	var t Timeouts
	seen := map[string]bool{}
	for i := 0; i < len(words); i += 2 {
		word := words[i]
		if !slices.Contains(timeoutWords, word) {
			return f.bad("syntax", strconv.Quote(word)+" is not known here"+didYouMean(word, timeoutWords))
		}
		if i+1 == len(words) || seen[word] {
			return f.bad("syntax", strconv.Quote(word)+" needs one value, once")
		}
		seen[word] = true
		n, err := strconv.ParseInt(words[i+1], 10, 64)
		if err != nil {
			return f.bad("syntax", strconv.Quote(words[i+1])+" is no whole number of seconds")
		}
		if n < 0 || n > timeoutMost {
			return f.bad("range", fmt.Sprintf("%s %d is out of range", word, n))
		}
		*map[string]*time.Duration{"tcp": &t.TCP, "tcpfin": &t.TCPFin, "udp": &t.UDP}[word] = time.Duration(n) * time.Second
	}
	return t, true
}

// parseShield reads shield.
func parseShield(f field) (any, bool) {
	if on, ok := f.it.value.(bool); ok {
		if on {
			return shieldTime, true
		}
		return time.Duration(0), true
	}
	d, ok := f.duration()
	if !ok {
		return nil, false
	}
	if d < 0 || d > shieldMost {
		return f.bad("range", shown(f.it)+" is out of range")
	}
	return d, true
}
