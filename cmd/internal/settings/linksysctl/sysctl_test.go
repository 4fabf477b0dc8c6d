package linksysctl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vipd/cmd/internal/settings/linksysctl"
)

var promote = linksysctl.Setting{Dev: "eth0", Name: "promote_secondaries", Value: "1"}

// machine is a tree of settings and a state directory.
type machine struct {
	t         *testing.T
	root, dir string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t, t.TempDir(), t.TempDir()}
	m.link("eth0", "0")
	return m
}

func (m *machine) path(dev string) string {
	return filepath.Join(m.root, "net/ipv4/conf", dev, "promote_secondaries")
}

func (m *machine) link(dev, value string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.path(dev)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	m.put(dev, value)
}

func (m *machine) put(dev, value string) {
	m.t.Helper()
	if err := os.WriteFile(m.path(dev), []byte(value+"\n"), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) keeper() *linksysctl.Keeper {
	return linksysctl.New(m.root, filepath.Join(m.dir, "sysctls.json"))
}

func (m *machine) expect(dev, want string) {
	m.t.Helper()
	b, err := os.ReadFile(m.path(dev))
	if err != nil {
		m.t.Fatal(err)
	}
	if got := strings.TrimSpace(string(b)); got != want {
		m.t.Errorf("%s has %s, want %s", dev, got, want)
	}
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func TestSetAndGivenBack(t *testing.T) {
	m := newMachine(t)
	k := m.keeper()
	m.must(k.Want([]linksysctl.Setting{promote}, map[string]int{"eth0": 2}))
	m.expect("eth0", "1")
	m.must(k.Want(nil, map[string]int{"eth0": 2}))
	m.expect("eth0", "0")
}

// What was as wanted before is nobody's to give back.
func TestAsWantedBefore(t *testing.T) {
	m := newMachine(t)
	m.put("eth0", "1")
	k := m.keeper()
	m.must(k.Want([]linksysctl.Setting{promote}, map[string]int{"eth0": 2}))
	m.must(k.Release(map[string]int{"eth0": 2}))
	m.expect("eth0", "1")
}

// After a crash the next start gives back what is not wanted any more, and keeps in mind
// what is.
func TestAfterCrash(t *testing.T) {
	for name, want := range map[string][]linksysctl.Setting{"still wanted": {promote}, "not any more": nil} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			links := map[string]int{"eth0": 2}
			m.must(m.keeper().Want([]linksysctl.Setting{promote}, links))
			next := m.keeper()
			m.must(next.Want(want, links))
			m.expect("eth0", map[bool]string{true: "1", false: "0"}[want != nil])
			m.must(next.Release(links))
			m.expect("eth0", "0")
		})
	}
}

func TestChangedByOthers(t *testing.T) {
	m := newMachine(t)
	links := map[string]int{"eth0": 2}
	k := m.keeper()
	m.must(k.Want([]linksysctl.Setting{promote}, links))
	m.put("eth0", "2")
	m.must(k.Release(links))
	m.expect("eth0", "2")
}

// An interface that is made anew gets the setting anew, and its own old value back; one
// that comes late gets it then.
func TestInterfaceComesBack(t *testing.T) {
	m := newMachine(t)
	k := m.keeper()
	late := linksysctl.Setting{Dev: "eth1", Name: promote.Name, Value: "1"}
	m.must(k.Want([]linksysctl.Setting{promote, late}, map[string]int{"eth0": 2}))
	m.must(k.Links(map[string]int{}))
	m.put("eth0", "7")
	m.link("eth1", "0")
	m.must(k.Links(map[string]int{"eth0": 5, "eth1": 6}))
	m.expect("eth0", "1")
	m.expect("eth1", "1")
	m.must(k.Release(map[string]int{"eth0": 5, "eth1": 6}))
	m.expect("eth0", "7")
	m.expect("eth1", "0")
}

func TestErrorsAreToldAndTriedAgain(t *testing.T) {
	m := newMachine(t)
	k := m.keeper()
	links := map[string]int{"eth1": 3}
	late := linksysctl.Setting{Dev: "eth1", Name: promote.Name, Value: "1"}
	if err := k.Want([]linksysctl.Setting{late}, links); err == nil {
		t.Fatal("a setting that is not there was set")
	}
	m.link("eth1", "0")
	m.must(k.Links(links))
	m.expect("eth1", "1")
}

// A record that cannot be read is told once, with its name; the wanted settings are made all the same.
func TestDamagedRecord(t *testing.T) {
	m := newMachine(t)
	links := map[string]int{"eth0": 2}
	file := filepath.Join(m.dir, "sysctls.json")
	for name, text := range map[string]string{"no JSON": "{", "another file's": `[{"Dev":"..","Name":"promote_secondaries","Value":"1","Index":2,"Old":"7"}]`} {
		t.Run(name, func(t *testing.T) {
			m.put("eth0", "0")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			k := m.keeper()
			if err := k.Want([]linksysctl.Setting{promote}, links); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("got %v, want the name of the file", err)
			}
			m.expect("eth0", "1")
			m.must(k.Want([]linksysctl.Setting{promote}, links))
			m.must(k.Release(links))
			m.expect("eth0", "0")
		})
	}
}
