package conf

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// tomlWriter writes random TOML and remembers where it put every leaf.
type tomlWriter struct {
	t      *rapid.T
	text   strings.Builder
	leaves []leaf
	names  int
}

// leaf is a key with a value, or an entry of an array.
type leaf struct {
	path      []any // strings and array positions
	line, col int
}

// here returns the place where the next character goes.
func (w *tomlWriter) here() (line, col int) {
	text := w.text.String()
	return strings.Count(text, "\n") + 1, utf8.RuneCountInString(text[strings.LastIndexByte(text, '\n')+1:]) + 1
}

func (w *tomlWriter) put(s string) { w.text.WriteString(s) }

// pick returns one of the texts.
func (w *tomlWriter) pick(texts ...string) string { return rapid.SampledFrom(texts).Draw(w.t, "text") }

// space puts blanks, in arrays and inline tables also new lines and comments.
func (w *tomlWriter) space(newlines bool) {
	if newlines {
		w.put(w.pick("", "", " ", "\t", "\n", "\r\n", " # } ] ä = \"\n", "\n\n  "))
	} else {
		w.put(w.pick("", "", " ", "\t", "  "))
	}
}

// key puts a new key and returns its name.
func (w *tomlWriter) key() string {
	w.names++
	n := fmt.Sprint(w.names)
	switch rapid.IntRange(0, 4).Draw(w.t, "key") {
	case 0:
		w.put(`"ä.\u0022= ` + n + `"`)
		return `ä."= ` + n
	case 1:
		w.put(`'q\"#]` + n + `'`)
		return `q\"#]` + n
	case 2:
		w.put("-" + n)
		return "-" + n
	}
	w.put("key_" + n)
	return "key_" + n
}

// value puts a value that belongs to path.
func (w *tomlWriter) value(path []any, depth int) {
	switch kind := rapid.IntRange(0, 7).Draw(w.t, "kind"); {
	case kind == 0 && depth > 0:
		w.put("[")
		for i := range rapid.IntRange(0, 3).Draw(w.t, "entries") {
			if i > 0 {
				w.put(",")
			}
			w.space(true)
			w.leaf(append(path[:len(path):len(path)], i))
			w.value(append(path[:len(path):len(path)], i), depth-1)
			w.space(true)
		}
		w.put("]")
	case kind == 1 && depth > 0:
		w.put("{")
		for i := range rapid.IntRange(0, 3).Draw(w.t, "keys") {
			if i > 0 {
				w.put(",")
			}
			w.space(false)
			w.assignment(path, depth-1)
			w.space(false)
		}
		w.put("}")
	default:
		w.put(w.pick(`"s # \" ] } , = \\"`, `'l # " ] } \'`, `"""m " "" \""" # ]`+"\n"+`[x]"""""`, "'''m ' '' \\\n[y] = '''''", "true", "-12", "0x1F", "6.02e23",
			"1979-05-27T07:32:00Z", "1979-05-27 07:32:00", "inf", `""`, "''", `"日本語"`, `"\U0001F600"`))
	}
}

// leaf remembers the place for a path.
func (w *tomlWriter) leaf(path []any) {
	line, col := w.here()
	w.leaves = append(w.leaves, leaf{path, line, col})
}

// assignment puts key = value, sometimes with a dotted key.
func (w *tomlWriter) assignment(path []any, depth int) {
	path = path[:len(path):len(path)]
	for rapid.IntRange(0, 3).Draw(w.t, "dots") == 0 {
		path = append(path, w.key())
		w.space(false)
		w.put(".")
		w.space(false)
	}
	line, col := w.here()
	path = append(path, w.key())
	w.leaves = append(w.leaves, leaf{path, line, col})
	w.space(false)
	w.put("=")
	w.space(false)
	w.value(path, depth)
}

// body puts the assignments of a table, one a line.
func (w *tomlWriter) body(path []any) {
	for range rapid.IntRange(0, 4).Draw(w.t, "lines") {
		w.put(w.pick("", "", "  ", "\t", "# comment = [\n", "\n"))
		w.assignment(path, 2)
		w.put(w.pick("\n", " # after [x]\n", "\r\n"))
	}
}

// document puts a whole file.
func (w *tomlWriter) document() {
	w.body(nil)
	for range rapid.IntRange(0, 5).Draw(w.t, "tables") {
		if rapid.Bool().Draw(w.t, "array") {
			w.put("[[")
			name := w.key()
			w.put("]]\n")
			w.body([]any{name, 0})
			if rapid.Bool().Draw(w.t, "again") {
				quoted := quote(name)
				w.put("  [[ " + quoted + " ]] # again\n")
				w.body([]any{name, 1})
				w.put("[" + quoted + ".")
				sub := w.key()
				w.put("]\n")
				w.body([]any{name, 1, sub})
			}
			continue
		}
		w.put("[")
		path := []any{w.key()}
		if rapid.Bool().Draw(w.t, "deep") {
			w.put(" . ")
			path = append(path, w.key())
		}
		w.put("]\n")
		w.body(path)
	}
}

// TestIndexFindsEveryLeaf: whatever is written, each key and array entry is
// found at its line and column, and nothing that the TOML library decodes is
// without a place.
func TestIndexFindsEveryLeaf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &tomlWriter{t: t}
		w.document()
		text := w.text.String()
		src := newSource("random.toml", text)
		root, twice := index(src)
		if twice != nil {
			t.Fatalf("%q found twice in\n%s", twice.name, text)
		}
		for _, l := range w.leaves {
			it := root
			for _, step := range l.path {
				switch step := step.(type) {
				case string:
					it = it.child(step)
				case int:
					if step < len(it.list) {
						it = it.list[step]
					} else {
						it = nil
					}
				}
				if it == nil {
					t.Fatalf("%v is not found in\n%s", l.path, text)
				}
			}
			if line, col := src.position(it.at.start); line != l.line || col != l.col {
				t.Fatalf("%v found at %d:%d, stands at %d:%d in\n%s", l.path, line, col, l.line, l.col, text)
			}
		}
		values := map[string]any{}
		if _, err := decode(text, &values); err != nil {
			t.Fatalf("the generator wrote no TOML: %v\n%s", err, text)
		}
		if where := unplaced(root, values, ""); where != "" {
			t.Fatalf("%s has no place in\n%s", where, text)
		}
	})
}

// unplaced returns the path of a decoded value that the index does not have.
func unplaced(it *item, value any, path string) string {
	if it == nil {
		return path
	}
	switch v := value.(type) {
	case map[string]any:
		if len(it.keys) != len(v) {
			return path + " (number of keys)"
		}
		for name, child := range v {
			if where := unplaced(it.child(name), child, join(path, name)); where != "" {
				return where
			}
		}
	case []map[string]any:
		if len(it.list) != len(v) {
			return path + " (number of tables)"
		}
		for i := range v {
			if where := unplaced(it.list[i], v[i], fmt.Sprint(path, "[", i, "]")); where != "" {
				return where
			}
		}
	case []any:
		if len(it.list) != len(v) {
			return path + " (number of entries)"
		}
		for i := range v {
			if where := unplaced(it.list[i], v[i], fmt.Sprint(path, "[", i, "]")); where != "" {
				return where
			}
		}
	}
	return ""
}
