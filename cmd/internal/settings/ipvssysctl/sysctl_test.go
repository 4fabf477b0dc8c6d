package ipvssysctl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vipd/cmd/internal/settings/ipvssysctl"
)

// machine is a tree of settings and a state directory.
type machine struct {
	t         *testing.T
	dir, file string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t, t.TempDir(), filepath.Join(t.TempDir(), "ipvs-sysctls.json")}
	m.put("conn_reuse_mode", "1")
	m.put("expire_nodest_conn", "0")
	m.put("sync_threshold", "3\t50")
	return m
}

func (m *machine) put(name, value string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(value+"\n"), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) keeper() *ipvssysctl.Keeper { return ipvssysctl.New(m.dir, m.file, nil) }

func (m *machine) expect(name, want string) {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.dir, name))
	if err != nil {
		m.t.Fatal(err)
	}
	if got := strings.TrimSpace(string(b)); got != want {
		m.t.Errorf("%s has %q, want %q", name, got, want)
	}
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

type settings = map[string]string

func TestSetChangedAndGivenBack(t *testing.T) {
	m := newMachine(t)
	k := m.keeper()
	m.must(k.Want(settings{"expire_nodest_conn": "1", "sync_threshold": "3 0", "conn_reuse_mode": "1"}))
	m.expect("expire_nodest_conn", "1")
	m.expect("sync_threshold", "3 0")
	if got := k.Status(); len(got) != 3 || got[1] != (ipvssysctl.Setting{Name: "expire_nodest_conn", Want: "1", Value: "1"}) {
		t.Errorf("status %v", got)
	}
	// A reload: one changes, one goes, one comes.
	m.must(k.Want(settings{"sync_threshold": "0 1", "conn_reuse_mode": "0"}))
	m.expect("expire_nodest_conn", "0")
	m.expect("sync_threshold", "0 1")
	m.expect("conn_reuse_mode", "0")
	m.must(k.Release())
	m.expect("sync_threshold", "3 50")
	m.expect("conn_reuse_mode", "1")
}

// What was as wanted before is nobody's to give back.
func TestAsWantedBefore(t *testing.T) {
	m := newMachine(t)
	k := m.keeper()
	m.must(k.Want(settings{"conn_reuse_mode": "1", "sync_threshold": "3 50"}))
	m.must(k.Release())
	m.expect("conn_reuse_mode", "1")
	m.expect("sync_threshold", "3\t50")
}

// After a crash the next stop gives back what was there before the first start, whatever the next start wants.
func TestAfterCrash(t *testing.T) {
	for name, want := range map[string]settings{"the same": {"expire_nodest_conn": "1"}, "another": {"expire_nodest_conn": "2"}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.must(m.keeper().Want(settings{"expire_nodest_conn": "1"}))
			next := m.keeper()
			m.must(next.Want(want))
			m.expect("expire_nodest_conn", map[string]string{"the same": "1", "another": "2", "none": "0"}[name])
			m.must(next.Release())
			m.expect("expire_nodest_conn", "0")
		})
	}
}

func TestChangedByOthers(t *testing.T) {
	m := newMachine(t)
	k := m.keeper()
	m.must(k.Want(settings{"expire_nodest_conn": "1"}))
	m.put("expire_nodest_conn", "7")
	m.must(k.Release())
	m.expect("expire_nodest_conn", "7")
}

func TestTroubleIsToldAndTriedAgain(t *testing.T) {
	m := newMachine(t)
	k := m.keeper()
	err := k.Want(settings{"no_such": "1", "expire_nodest_conn": "1"})
	if err == nil || !strings.Contains(err.Error(), "net.ipv4.vs.no_such") {
		t.Fatalf("got %v", err)
	}
	m.expect("expire_nodest_conn", "1")
	if got := k.Status(); len(got) != 2 || got[1].Err == nil || got[1].Value != "" {
		t.Errorf("status %v", got)
	}
	m.put("no_such", "0")
	m.must(k.Want(settings{"no_such": "1"}))
	m.expect("no_such", "1")
	m.expect("expire_nodest_conn", "0")
	if err := os.WriteFile(m.file, []byte(`[{"Name":"../x","Value":"1","Old":"0"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.keeper().Want(nil); err == nil || !strings.Contains(err.Error(), "no setting") {
		t.Errorf("a bad record: %v", err)
	}
}
