package conf

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// TOML returns the configuration as a file: canonical, with every default
// written out. Load of that file gives an equal Config again, but for Files and
// Warnings, and for Spreads: a vip_spread comes out as the instances that it makes
// on this machine. Passwords are in it.
func (c *Config) TOML() string {
	var b strings.Builder
	for _, s := range c.sections() {
		s.write(&b)
	}
	return b.String()
}

// write writes the table and those below it.
func (s section) write(b *strings.Builder) {
	if s.header != "" {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(s.header + "\n")
	}
	for _, k := range s.settings {
		if k.written() {
			b.WriteString(k.toml() + "\n")
		}
	}
	for _, p := range s.parts {
		p.write(b)
	}
}

// toml returns the setting as TOML.
func (s setting) toml() string { return s.key + " = " + valueTOML(s.value) }

// valueTOML returns a value as TOML.
func valueTOML(value any) string {
	switch v := value.(type) {
	case string:
		return quote(v)
	case time.Duration:
		return timeTOML(v)
	case netip.Addr:
		return quote(v.String())
	case netip.AddrPort:
		return quote(endpointText(v))
	case []string:
		return quoteAll(v)
	case list:
		return quoteAll(v)
	case lines:
		return onePerLine(each(v, quote))
	case inline:
		return v.toml()
	case inlines:
		return onePerLine(each(v, inline.toml))
	case Command:
		if v.User.Name == "" {
			return quoteAll(v.Argv)
		}
		return inline{{"script", v.Argv}, {"user", v.User.Name}, {"group", v.User.Group}}.toml()
	case hidden:
		return valueTOML(v.value)
	}
	return fmt.Sprint(value) // a number or a bool
}

// toml returns the table as TOML.
func (t inline) toml() string {
	var keys []string
	for _, k := range t {
		if k.written() {
			keys = append(keys, k.toml())
		}
	}
	return "{ " + strings.Join(keys, ", ") + " }"
}

// onePerLine returns an array.
func onePerLine(entries []string) string {
	return "[\n  " + strings.Join(entries, ",\n  ") + ",\n]"
}

// timeTOML returns a time as TOML: whole seconds as a number, else a string.
func timeTOML(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10)
	}
	return `"` + d.String() + `"`
}

// quote returns a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// quoteAll returns a TOML array of strings.
func quoteAll(list []string) string { return "[" + strings.Join(each(list, quote), ", ") + "]" }
