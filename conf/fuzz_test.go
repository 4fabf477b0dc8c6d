package conf

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// FuzzLoad: whatever the bytes are, Load returns a Config or errors; every
// error has its place in the file; everything decoded is in the index; and an
// accepted configuration prints to a file that loads to the same Config.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.toml", "testdata/good/*.toml", "../docs/*.toml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, diags := loadText(text)
		sameAsWhole(t, &Loader{}, fstest.MapFS{"vipd.toml": {Data: text}}, "vipd.toml")
		if (c == nil) != diags.HasErrors() || c != nil && len(diags) > 0 {
			t.Fatal("Load returned both halves, or neither")
		}
		lines := strings.Count(string(text), "\n") + 1
		for _, d := range diags {
			if d.File == "" || d.Line < 1 || d.Line > lines || d.Col < 1 || d.Message == "" || d.Rule == "" {
				t.Fatalf("a diagnostic without a place, rule or message: %+v", d)
			}
		}
		src := newSource("fuzz.toml", string(text))
		root, _ := index(src)
		values := map[string]any{}
		if _, err := decode(src.text, &values); err == nil {
			if where := unplaced(root, values, ""); where != "" {
				t.Fatalf("%s has no place", where)
			}
		}
		if c != nil {
			checkRoundTrip(t, c)
		}
	})
}

// loadText loads one file.
func loadText(text []byte) (*Config, Diagnostics) {
	return Load(fstest.MapFS{"vipd.toml": {Data: text}}, "vipd.toml", env)
}

// failer is what tests, fuzz targets and properties have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkRoundTrip checks that a Config prints to a file that means the same.
func checkRoundTrip(t failer, c *Config) {
	t.Helper()
	text := c.TOML()
	again, diags := loadText([]byte(text))
	if again == nil {
		t.Fatalf("the printed configuration is refused:\n%s\n%s", diags.Text(), text)
	}
	a, b := *c, *again
	a.Files, b.Files, a.Warnings, b.Warnings, a.Spreads = nil, nil, nil, nil, nil
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("the printed configuration means something else:\n%s\nfile:\n%s", cmp.Diff(a, b, cmp.Exporter(func(reflect.Type) bool { return true })), text)
	}
	if second := again.TOML(); second != text {
		t.Fatalf("printing twice gives two texts:\n%s", cmp.Diff(text, second))
	}
}
