package conf

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Reference returns the reference page of the configuration in Markdown, made
// from the schema.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, block := range blocks() {
		fmt.Fprintf(&b, "\n## %s\n\n", block.name)
		if block != rootBlock {
			fmt.Fprintf(&b, "`%s`\n\n", block.header)
		}
		b.WriteString(block.doc + "\n\n")
		b.WriteString("| key | value | default | meaning |\n| --- | --- | --- | --- |\n")
		for _, k := range block.keys {
			if block.shares(k) {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", keyCell(k), cell(k.valueCell()), cell(k.defaultCell()), cell(k.meaningCell()))
		}
	}
	b.WriteString(referenceRules)
	for _, r := range rules {
		fmt.Fprintf(&b, "- `%s`: %s\n", r.id, r.doc)
	}
	b.WriteString(referenceKeywords)
	for _, f := range []fate{instead, noEffect} {
		b.WriteString(keywordTable(f))
	}
	return b.String()
}

const referenceHead = `# Configuration reference

This page is generated from the schema in ` + "`conf`" + ` (` + "`go test ./conf -run TestReference -update`" + `); do not edit it.

The file is TOML with keepalived's words. Times are a number of seconds (fractions allowed) or a string with a
unit: ` + "`1`, `0.1`, `\"250ms\"`, `\"1m30s\"`, `\"2d\"`" + `. Addresses with a port are ` + "`\"10.0.0.1:80\"`, `\"[2001:db8::1]:80\"` or `\"10.0.0.1 80\"`" + `.
On/off keys are ` + "`true` or `false`" + `. A list takes keepalived's lines as strings, or inline tables.

` + "`vipd check -c FILE`" + ` reports every mistake at once, with its place and what is allowed. A complete, commented file is
[vipd.example.toml](vipd.example.toml).
`

const referenceRules = `
## What is checked beside single values

A broken rule is an error unless it says "warning". Warnings do not keep a configuration from being used;
` + "`vipd check --strict`" + ` fails on them.

`

const referenceKeywords = `
## keepalived's other keywords

What keepalived 2.4 knows and this version of vipd does not. An error says so; nothing is ignored silently.
`

// keyCell shows a key with its other spellings.
func keyCell(k *key) string {
	text := "`" + k.name + "`"
	for _, a := range k.aliases {
		text += ", `" + a + "`"
	}
	return text
}

// valueCell says what may be written.
func (k *key) valueCell() string {
	switch k.kind.name {
	case "table", "tables", "named":
		return "see [" + k.block.name + "](#" + strings.ToLower(k.block.name) + ")"
	case "time":
		return "time " + span2(k.min, k.max)
	case "text":
		return fmt.Sprintf("a string of up to %d bytes", k.max)
	case "solid":
		return fmt.Sprintf("a string of up to %d bytes without blanks", k.max)
	}
	return k.allowed()
}

// defaultCell says what holds when the key is not given.
func (k *key) defaultCell() string {
	switch {
	case k.need:
		return "must be given"
	case k.defText != "":
		return k.defText
	}
	switch d := k.def.(type) {
	case time.Duration:
		return "`" + timeTOML(d) + "`"
	case string:
		return "`" + quote(d) + "`"
	case netip.Addr:
		return "`" + quote(d.String()) + "`"
	case weight:
		return fmt.Sprintf("`%d`", d.n)
	case nil:
		return "none"
	}
	return fmt.Sprintf("`%v`", k.def)
}

// meaningCell says what the key does.
func (k *key) meaningCell() string {
	text := k.doc
	if k.differs != "" {
		text += " **Differs:** " + k.differs
	}
	return text
}

// cell makes text fit for a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "\n", " ")
}

// keywordTable lists the keywords of one fate.
func keywordTable(f fate) string {
	var b strings.Builder
	switch f {
	case instead:
		b.WriteString("\n### Not supported, with what to use instead\n\n")
	case noEffect:
		b.WriteString("\n### Accepted with a warning\n\n")
	}
	for _, k := range keywords {
		if k.fate == f {
			fmt.Fprintf(&b, "- %s: `%s`: %s.\n", strings.Join(k.blocks, ", "), strings.Join(strings.Fields(k.words), "`, `"), k.advice)
		}
	}
	return b.String()
}
