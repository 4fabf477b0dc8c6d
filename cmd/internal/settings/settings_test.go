package settings_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vipd/cmd/internal/settings"
)

var (
	plain = settings.ID{Name: "sync_threshold"}
	ofDev = settings.ID{Dev: "eth0.7", Name: "arp_ignore"}
)

// tree is a directory of settings and the file of a book.
type tree struct {
	*testing.T
	dir, file string
}

func newTree(t *testing.T) *tree {
	t.Helper()
	m := &tree{t, t.TempDir(), filepath.Join(t.TempDir(), "state", "settings.json")}
	if err := os.Mkdir(filepath.Join(m.dir, ofDev.Dev), 0o755); err != nil {
		t.Fatal(err)
	}
	m.put(plain, "3\t50\n")
	m.put(ofDev, "0\n")
	return m
}

func (m *tree) path(id settings.ID) string { return filepath.Join(m.dir, id.Dev, id.Name) }

func (m *tree) put(id settings.ID, text string) {
	m.Helper()
	if err := os.WriteFile(m.path(id), []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}

func (m *tree) expect(id settings.ID, want string) {
	m.Helper()
	text, err := os.ReadFile(m.path(id))
	if err != nil || strings.TrimSpace(string(text)) != want {
		m.Errorf("%v has %q, %v; want %q", id, text, err, want)
	}
}

func (m *tree) book() *settings.Book { return settings.NewBook(m.dir, "net.x", m.file) }

func (m *tree) must(errs ...error) {
	m.Helper()
	for _, err := range errs {
		if err != nil {
			m.Fatal(err)
		}
	}
}

// What was before the first change is given back, by a successor as well.
func TestGivenBack(t *testing.T) {
	m := newTree(t)
	b := m.book()
	m.must(b.Set(plain, "3 0", 0), b.Set(plain, "0 1", 0), b.Set(ofDev, "1", 7))
	m.expect(plain, "0 1")
	m.expect(ofDev, "1")
	next := m.book()
	m.must(next.Load())
	want := []settings.Held{{Name: plain.Name, Value: "0 1", Old: "3 50"}, {Dev: ofDev.Dev, Name: ofDev.Name, Value: "1", Index: 7, Old: "0"}}
	if got := next.Held(); !slices.Equal(got, want) {
		t.Errorf("held: %+v, want %+v", got, want)
	}
	m.must(next.GiveBack(plain), next.GiveBack(ofDev), next.Save())
	m.expect(plain, "3 50")
	m.expect(ofDev, "0")
	last := m.book()
	m.must(last.Load())
	if got := last.Held(); len(got) != 0 {
		t.Errorf("given back, but held: %+v", got)
	}
}

// What is as wanted is nobody's, and what others changed is theirs.
func TestNotOurs(t *testing.T) {
	m := newTree(t)
	b := m.book()
	m.must(b.Set(plain, "3 50", 0), b.Set(ofDev, "1", 7))
	if len(b.Held()) != 1 || b.Has(plain, "3 50") || !b.Has(ofDev, "1") || b.Has(ofDev, "2") {
		t.Errorf("held: %+v", b.Held())
	}
	m.put(ofDev, "2\n")
	m.must(b.GiveBack(plain), b.GiveBack(ofDev), b.Save())
	m.expect(plain, "3\t50")
	m.expect(ofDev, "2")
	if len(b.Held()) != 0 {
		t.Errorf("held: %+v", b.Held())
	}
}

// A setting that cannot be changed, or not remembered, is not held, and its error names it. One that is gone ends.
func TestTrouble(t *testing.T) {
	m := newTree(t)
	b := m.book()
	gone := settings.ID{Dev: "eth9.1", Name: "arp_ignore"}
	if err := b.Set(gone, "1", 9); err == nil || !strings.Contains(err.Error(), "reading net.x.eth9/1.arp_ignore: ") {
		t.Errorf("a setting that is not there: %v", err)
	}
	m.must(os.MkdirAll(m.file, 0o755))
	if err := b.Set(plain, "3 0", 0); err == nil || !strings.Contains(err.Error(), "remembering which settings of net.x were changed") {
		t.Errorf("no file to remember it in: %v", err)
	}
	m.expect(plain, "3\t50")
	if len(b.Held()) != 0 {
		t.Errorf("held: %+v", b.Held())
	}
	m.must(os.Remove(m.file), b.Set(ofDev, "1", 7), os.Remove(m.path(ofDev)), b.GiveBack(ofDev))
	if len(b.Held()) != 0 {
		t.Errorf("gone, but held: %+v", b.Held())
	}
}

// A record is as an earlier version wrote it, or it is refused as a whole.
func TestRecord(t *testing.T) {
	for text, held := range map[string]int{
		`[{"Name":"sync_threshold","Value":"3 0","Old":"3 50"}]`:                             1,
		`[{"Dev":"eth0.7","Name":"arp_ignore","Value":"1","Index":7,"Old":"0"}]`:             1,
		`[{"Name":"sync_threshold","Value":"3 0","Old":"3 50"},{"Name":"../x","Value":"1"}]`: -1,
		`[{"Dev":"..","Name":"x","Value":"1"}]`:                                              -1,
		`[{"Name":"..","Value":"1"}]`:                                                        -1,
		`[{"Dev":"eth0","Value":"1"}]`:                                                       -1,
		`{`:                                                                                  -1,
	} {
		m := newTree(t)
		m.must(os.MkdirAll(filepath.Dir(m.file), 0o755), os.WriteFile(m.file, []byte(text), 0o600))
		b := m.book()
		err := b.Load()
		if refused := err != nil; refused != (held < 0) || len(b.Held()) != max(held, 0) {
			t.Errorf("%s: %v, held %+v", text, err, b.Held())
		}
		if err != nil && !strings.Contains(err.Error(), m.file) {
			t.Errorf("%v does not name %s", err, m.file)
		}
	}
}
