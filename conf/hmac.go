package conf

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The bounds of a key of auth_hmac, in bytes.
const (
	hmacKeyMin = 32
	hmacKeyMax = 64
)

// hmacKeysKind is the kind of key in auth_hmac.
var hmacKeysKind = &kind{"hmackeys", `an array of "ID KEY" or { id = ID, key = "KEY" }: ID is 1..255, KEY is hex:DIGITS, file:/PATH, or the text itself, of 32..64 bytes`,
	[]string{"type", "syntax", "range", "length", "hex", "file", "twice"}, parseHMACKeys}

// hmacBlock is [vrrp_instance.NAME.auth_hmac].
var hmacBlock = &block{
	name:   "auth_hmac",
	header: "[vrrp_instance.NAME.auth_hmac]",
	doc: "Signed adverts, as keepalived has them from 2.4.2: only routers with the key are heard, and nothing can be played again. " +
		"Older routers refuse signed adverts, so introduce it in three rounds over all directors: `mode` \"receive-only\", then \"permissive\", then \"enforce\". " +
		"To change a key, add the new one everywhere, then make it the `active_key` everywhere, then take the old one out.",
	keys: []*key{
		{name: "key", kind: hmacKeysKind, need: true, secret: true, doc: "The keys that are accepted, the same on all directors. In a file the newline at its end does not count; a file of \"hex:…\" is read so."},
		{name: "active_key", kind: intKind, min: 1, max: 255, defText: "the first in the list", doc: "Id of the key to sign with."},
		{name: "anti_replay", kind: choiceKind, words: []string{"time", "monotonic"}, def: "time", doc: "\"time\": the clocks of all directors must agree (NTP). \"monotonic\": they need not; but an advert recorded before a director started is then believed by it."},
		{name: "time_window", kind: timeKind, min: second, max: 300 * second, defText: "three times advert_int, at least 5 s", doc: "By how much the clocks may differ."},
		{name: "mode", kind: choiceKind, words: []string{"enforce", "permissive", "receive-only"}, def: "enforce", doc: "\"enforce\": sign, and hear nothing else. \"permissive\": sign, but hear all; what enforce would refuse is counted and named. \"receive-only\": as permissive, without signing."},
	},
}

// parseHMACKeys reads key.
func parseHMACKeys(f field) (any, bool) {
	all, ok := parseEntries(f, field.hmacKey, func(k HMACKey) string { return "key " + strconv.Itoa(int(k.ID)) })
	if ok && len(all) == 0 {
		return f.bad("syntax", "is empty")
	}
	return all, ok
}

// hmacKey reads one entry.
func (f field) hmacKey() (HMACKey, bool) {
	id, text := "", ""
	switch {
	case f.it.kind == tableItem:
		for _, entry := range f.it.keys {
			n, number := entry.it.value.(int64)
			s, isText := entry.it.value.(string)
			switch {
			case entry.name == "id" && number:
				id = strconv.FormatInt(n, 10)
			case entry.name == "key" && isText:
				text = s
			default:
				f.badAt(entry.it, join(f.path, entry.name), "type", "does not fit here", f.k.must())
				return HMACKey{}, false
			}
		}
	default:
		s, ok := f.it.value.(string)
		if !ok {
			f.bad("type", "an entry is no string")
			return HMACKey{}, false
		}
		id, text, _ = strings.Cut(strings.TrimSpace(s), " ")
		text = strings.TrimSpace(text)
	}
	if id == "" || text == "" {
		f.bad("syntax", "an id and a key are needed")
		return HMACKey{}, false
	}
	n, err := strconv.ParseUint(id, 10, 8)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		f.bad("syntax", "does not begin with the id of the key")
		return HMACKey{}, false
	case err != nil || n == 0:
		f.bad("range", "the id "+id+" is out of range")
		return HMACKey{}, false
	}
	secret, ok := f.hmacSecret(text)
	return HMACKey{uint8(n), secret}, ok
}

// hmacSecret reads the bytes of a key. Messages never show them.
func (f field) hmacSecret(text string) (string, bool) {
	if name, ok := strings.CutPrefix(text, "file:"); ok {
		if !path.IsAbs(name) {
			f.bad("file", fmt.Sprintf("%q is no absolute path", name))
			return "", false
		}
		content, err := f.c.content(name)
		if err != nil {
			var cause *fs.PathError
			if errors.As(err, &cause) {
				err = cause.Err
			}
			f.badAt(f.it, f.path, "file", fmt.Sprintf("%s cannot be read: %v", name, err), "it must hold the key alone, and be readable by vipd")
			return "", false
		}
		text = strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
	}
	if digits, ok := strings.CutPrefix(text, "hex:"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			f.bad("hex", "what follows hex: is no row of hexadecimal digits, two for each byte")
			return "", false
		}
		text = string(b)
	}
	if n := len(text); n < hmacKeyMin || n > hmacKeyMax {
		f.bad("length", fmt.Sprintf("the key has %d bytes", n))
		return "", false
	}
	return text, true
}

// hmac settles auth_hmac.
func (b *builder) hmac(v *values, in *Instance) {
	auth := get[*values](v, "auth_hmac")
	if auth == nil {
		return
	}
	if v.has("authentication") {
		b.say(Error, v, "auth_hmac", "vrrp_instance.auth_hmac/password", "there is an authentication table, too", "a signed advert has no password; take one of the two out")
	}
	keys := get[[]HMACKey](auth, "key")
	in.HMAC = HMAC{
		Mode: get[string](auth, "mode"), Monotonic: get[string](auth, "anti_replay") == "monotonic",
		Window: max(3*in.AdvertInterval, 5*time.Second), Keys: slices.Clone(keys),
	}
	if auth.has("time_window") {
		in.HMAC.Window = get[time.Duration](auth, "time_window")
	}
	if len(keys) == 0 {
		return // said already
	}
	in.HMAC.Active = keys[0].ID
	if auth.has("active_key") {
		in.HMAC.Active = uint8(auth.num("active_key"))
	}
	if !slices.ContainsFunc(keys, func(k HMACKey) bool { return k.ID == in.HMAC.Active }) && !auth.wrong("key") {
		b.say(Error, auth, "active_key", "auth_hmac.active_key/unknown", fmt.Sprintf("there is no key %d", in.HMAC.Active), "name the id of one of the keys")
	}
	slices.SortFunc(in.HMAC.Keys, func(a, b HMACKey) int { return cmp.Compare(a.ID, b.ID) })
}

// settings lists auth_hmac.
func (h HMAC) settings() []setting {
	replay := "time"
	if h.Monotonic {
		replay = "monotonic"
	}
	var table any = inline{
		{"key", hidden{list(each(h.Keys, HMACKey.line))}},
		{"active_key", h.Active},
		{"anti_replay", replay},
		{"time_window", h.Window},
		{"mode", h.Mode},
	}
	if len(h.Keys) == 0 {
		table = unwritten{table}
	}
	return []setting{{"auth_hmac", table}}
}

// line returns the key as an entry of key, secret and all.
func (k HMACKey) line() string {
	return strconv.Itoa(int(k.ID)) + " hex:" + hex.EncodeToString([]byte(k.Secret))
}
