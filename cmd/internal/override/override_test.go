package override

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func records() []Record {
	return []Record{
		{Kind: Drain, Service: "tcp 10.9.0.100:80", Server: "10.9.0.11:80", Until: time.Unix(1_800_000_000, 0).UTC(), By: "root", At: time.Unix(1_700_000_000, 0).UTC()},
		{Kind: Weight, Service: "tcp 10.9.0.100:80", Server: "10.9.0.11:80", Weight: 65535, By: "alice (root)", At: time.Unix(1_700_000_001, 0).UTC()},
		{Kind: Maintenance, Service: "fwmark 7 inet6", Server: "[2001:db8::1]:0", By: "root", At: time.Unix(1_700_000_002, 0).UTC()},
	}
}

func TestSavedIsLoaded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "overrides.json")
	if all, err := Load(name); all != nil || err != nil {
		t.Fatalf("without a file: %v, %v", all, err)
	}
	for _, want := range [][]Record{records(), records()[:1]} {
		if err := Save(name, want); err != nil {
			t.Fatal(err)
		}
		got, err := Load(name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("loaded %v, %v; want %v", got, err, want)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(name)); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

// What is told after somebody has cleared the state directory away is kept all the same.
func TestSavedInADirectoryThatIsGone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "run", "vipd", "overrides.json")
	if err := Save(name, records()); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(name); err != nil || !reflect.DeepEqual(got, records()) {
		t.Errorf("loaded %v, %v", got, err)
	}
	if err := Save(filepath.Join(name, "below a file"), nil); err == nil {
		t.Error("a file below a file was written")
	}
}

func TestBadFileIsSetAside(t *testing.T) {
	const entry = `{"kind":"drain","service":"tcp 10.9.0.100:80","server":"10.9.0.11:80","weight":0,"by":"root","at":"2026-01-02T03:04:05Z"}`
	if all, err := Parse([]byte(`{"version":1,"overrides":[` + entry + `]}`)); err != nil || len(all) != 1 {
		t.Fatalf("a good file: %v, %v", all, err)
	}
	for text, want := range map[string]string{
		"":                       "EOF",
		"{":                      "unexpected EOF",
		`{"version":2}`:          "version 2 is not 1",
		`{"version":1} {}`:       "behind the end",
		`{"version":1,"more":1}`: "unknown field",
		`{"version":1,"overrides":[` + strings.Replace(entry, "drain", "drown", 1) + `]}`:            `kind "drown"`,
		`{"version":1,"overrides":[` + strings.Replace(entry, "tcp ", "tup ", 1) + `]}`:              "parsing service",
		`{"version":1,"overrides":[` + strings.Replace(entry, "0.11:80", "0.11", 1) + `]}`:           "parsing server",
		`{"version":1,"overrides":[` + strings.Replace(entry, `"weight":0`, `"weight":-1`, 1) + `]}`: "not in 0..2147483647",
		`{"version":1,"overrides":[` + entry + "," + entry + `]}`:                                    "there twice",
	} {
		name := filepath.Join(t.TempDir(), "overrides.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := Load(name)
		if all != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name+".bad") {
			t.Errorf("%q: %v, %v; want an error with %q and the new name", text, all, err, want)
		}
		if b, err := os.ReadFile(name + ".bad"); err != nil || string(b) != text {
			t.Errorf("%q was not kept: %q, %v", text, b, err)
		}
		if all, err := Load(name); all != nil || err != nil {
			t.Errorf("the next start: %v, %v", all, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"overrides":[{"kind":"weight","service":"fwmark 7 inet","server":"10.9.0.11:80","weight":3,"by":"root","at":"2026-01-02T03:04:05Z"}]}`))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := Parse(text)
		if err != nil {
			return
		}
		name := filepath.Join(t.TempDir(), "f")
		if err := Save(name, all); err != nil {
			t.Fatal(err)
		}
		again, err := Load(name)
		if err != nil || len(again) != len(all) {
			t.Fatalf("%v, %v; want %v", again, err, all)
		}
	})
}
