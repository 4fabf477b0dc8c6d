package host_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// sweepCase is one address found at start.
type sweepCase struct {
	name     string
	found    host.Addr
	dev      string
	recorded bool // in the state file
	vip      string
	vipDev   string
	owner    bool
	bare     bool // the interface has no address of its own
	noMarks  bool // a kernel before 5.18
	removed  bool
	reason   string
}

func TestSweepDecides(t *testing.T) {
	const match = "10.9.0.100/32"
	marked, plain := addr(match), foreign(match)
	for _, c := range []sweepCase{
		{name: "configured and marked", found: marked, vip: match, removed: true, reason: "mark of vipd"},
		{name: "configured, unmarked", found: plain, vip: match, removed: true, reason: "not master"},
		{name: "configured, recorded", found: plain, vip: match, recorded: true, noMarks: true, removed: true, reason: "state file"},
		{name: "configured, recorded and marked", found: marked, vip: match, recorded: true, removed: true, reason: "state file"},
		{name: "recorded and marked, not configured any more", found: marked, recorded: true, removed: true, reason: "state file"},
		{name: "recorded, an old kernel", found: plain, recorded: true, noMarks: true, removed: true, reason: "state file"},
		{name: "recorded, but added by somebody else since", found: plain, recorded: true, reason: "lacks the mark"},
		{name: "marked only: another vipd's", found: marked},
		{name: "neither", found: plain},
		{name: "another prefix length", found: foreign("10.9.0.100/24"), vip: match, reason: "another prefix length, and not from vipd"},
		{name: "another prefix length, owner's", found: foreign("10.9.0.100/24"), vip: match, owner: true},
		{name: "another prefix length, another interface", found: foreign("10.9.0.100/24"), vip: match, dev: "eth1"},
		{name: "another prefix length, marked", found: addr("10.9.0.100/24"), vip: match, removed: true, reason: "another prefix length"},
		{name: "another prefix length, marked, owner's", found: addr("10.9.0.100/24"), vip: match, owner: true},
		{name: "another interface", found: plain, dev: "eth1", vip: match},
		{name: "another interface, marked", found: marked, dev: "eth1", vip: match, removed: true, reason: "or interface"},
		{name: "on its dev", found: plain, dev: "eth1", vip: match, vipDev: "eth1", removed: true, reason: "not master"},
		{name: "owner's", found: plain, vip: match, owner: true, reason: "owner"},
		{name: "the only address", found: plain, vip: match, bare: true, reason: "cut this machine off"},
		{name: "the only address, but marked", found: marked, vip: match, bare: true, removed: true, reason: "mark of vipd"},
	} {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { c.run(t) }) })
	}
}

func (c sweepCase) run(t *testing.T) {
	k := hosttest.New()
	k.NewLink("eth0")
	k.NewLink("eth1")
	if !c.bare {
		base(t, k)
	}
	if c.noMarks {
		k.WithoutMarks()
	}
	if c.dev == "" {
		c.dev = "eth0"
	}
	must(t, k.Add(c.dev, c.found))
	file := filepath.Join(t.TempDir(), "addresses.json")
	if c.recorded {
		must(t, os.WriteFile(file, []byte(`{"version":1,"addresses":[{"interface":"`+c.dev+`","address":"`+c.found.Prefix.String()+`"}]}`), 0o600))
	}
	m := host.NewManager(k, k, file, host.Callbacks{}, nil)
	s := host.Set{Instance: "A", Interface: "eth0", Owner: c.owner}
	if c.vip != "" {
		s.Addresses = []host.Address{{Prefix: pfx(c.vip), Dev: c.vipDev}}
	}
	m.Configure([]host.Set{s})
	k.Fail(hosttest.OpState, netip.Prefix{}, 3, unix.EBUSY) // read again
	found, _, err := m.Sweep()
	must(t, err)
	if got := k.Has(c.dev, c.found.Prefix); got == c.removed {
		t.Errorf("after the sweep the address is there: %v; report %v", got, found)
	}
	if c.reason == "" {
		if len(found) != 0 {
			t.Errorf("the sweep reports %v", found)
		}
		return
	}
	if len(found) != 1 || found[0].Removed != c.removed || !strings.Contains(found[0].String(), c.reason) {
		t.Errorf("the sweep reports %v, want one with %q, removed %v", found, c.reason, c.removed)
	}
}

// A vipd that was killed as master is followed by one with another configuration.
func TestO23LeftBehindAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		must(t, r.k.Add("eth0", addr("10.9.0.250/32"))) // of another vipd
		r.run()
		r.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32"), set("B", "10.9.0.110/24")})
		r.Want("A", true)
		r.Want("B", true)
		r.settle()
		r.stop()

		r.start()
		r.Configure([]host.Set{set("A", "10.9.0.101/32")})
		found, _, err := r.Sweep()
		must(t, err)
		if len(found) != 3 {
			t.Errorf("found %v", found)
		}
		expect(t, r.addresses(), "ip addr add 10.9.0.11/24 dev eth0\nip addr add 10.9.0.250/32 dev eth0 proto 112\nip addr add 192.0.2.1/24 dev eth1\n")
		r.run()
		expect(t, r.listed(t), "eth0 10.9.0.101/32") // nothing else to remember any more
		r.Want("A", true)
		r.settle()
		expect(t, r.listed(t), "eth0 10.9.0.101/32")
		r.stop()
	})
}

// listed prints the state file.
func (r *rig) listed(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(r.file)
	must(t, err)
	var d struct {
		Addresses []struct{ Interface, Address string }
	}
	must(t, json.Unmarshal(b, &d))
	var lines []string
	for _, a := range d.Addresses {
		lines = append(lines, a.Interface+" "+a.Address)
	}
	return strings.Join(lines, "\n")
}

// The file lists an address before the kernel has it. Where the kernel marks addresses, a takeover does not even wait
// for the file, which then lists all that is configured.
func TestStateFileIsWrittenAhead(t *testing.T) {
	const both = "eth0 10.9.0.100/32\neth0 10.9.0.101/32"
	for name, c := range map[string]struct {
		marks                 bool
		before, during, after string
	}{
		"marks":    {true, both, both + "\n" + both + "\n" + both + "\n" + both, both},
		"no marks": {false, "", both + "\n" + both + "\n" + both + "\n" + both, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				if !c.marks {
					r.k.WithoutMarks()
				}
				r.settle()
				r.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32")})
				r.settle()
				expect(t, r.listed(t), c.before)
				var seen []string
				r.k.OnChange(func() { seen = append(seen, r.listed(t)) })
				r.Want("A", true)
				r.settle()
				r.Want("A", false)
				r.settle()
				r.k.OnChange(nil)
				expect(t, strings.Join(seen, "\n"), c.during)
				expect(t, r.listed(t), c.after)
			})
		})
	}
}

// Whoever clears /run takes the state directory along; it is made again.
func TestStateDirectoryIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.settle()
		must(t, os.RemoveAll(filepath.Dir(r.file)))
		r.Configure([]host.Set{set("A", "10.9.0.100/32")})
		r.Want("A", true)
		r.settle()
		expect(t, r.listed(t), "eth0 10.9.0.100/32")
	})
}

// A state file that cannot be written or read costs a message, no address.
func TestStateFileFailureIsSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		core, logs := observer.New(zapcore.WarnLevel)
		dir := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(dir, nil, 0o600)) // a file where the directory should be
		r.j = &journal{}
		r.Manager = host.NewManager(r.k, r.k, filepath.Join(dir, "addresses.json"), r.j.callbacks(), zap.New(core))
		r.run()
		r.Configure([]host.Set{set("A", "10.9.0.100/32")})
		for range 3 {
			r.Want("A", true)
			r.settle()
			r.Want("A", false)
			r.settle()
		}
		r.Want("A", true)
		r.settle()
		if !r.k.Has("eth0", pfx("10.9.0.100/32")) {
			t.Error("no address without a state file")
		}
		if n := logs.FilterMessageSnippet("check space and rights of " + dir).Len(); n != 1 || logs.Len() != 1 {
			t.Errorf("%d messages about the directory, of %d", n, logs.Len())
		}
		r.stop()

		bad := filepath.Join(t.TempDir(), "addresses.json")
		must(t, os.WriteFile(bad, []byte("{"), 0o600))
		m := host.NewManager(r.k, r.k, bad, host.Callbacks{}, zap.New(core))
		m.Configure([]host.Set{set("A", "10.9.0.100/32")})
		found, _, err := m.Sweep()
		must(t, err)
		if len(found) != 1 || r.k.Has("eth0", pfx("10.9.0.100/32")) || logs.FilterMessageSnippet("going on without the list").Len() != 1 {
			t.Errorf("a broken state file: found %v, log %v", found, logs.All())
		}
	})
}

// The owner's address is the machine's own: vipd uses it and leaves it.
func TestOwnersAddressStays(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := set("A", "10.9.0.11/24", "10.9.0.12/32")
		s.Owner = true
		r.Configure([]host.Set{s})
		found, _, err := r.Sweep()
		must(t, err)
		if len(found) != 1 || found[0].Removed {
			t.Errorf("found %v", found)
		}
		r.Want("A", true)
		r.settle()
		expect(t, r.j.take(), "present A 10.9.0.11/24\npresent A 10.9.0.12/32")
		must(t, r.k.Add("eth0", foreign("10.9.0.50/32")))
		r.settle()
		must(t, r.k.Del("eth0", pfx("10.9.0.50/32"))) // its base address is its virtual one
		must(t, r.k.Del("eth0", pfx("10.9.0.12/32")))
		r.settle()
		expect(t, r.j.take(), "lost A 10.9.0.12/32\npresent A 10.9.0.12/32")
		must(t, r.Release())
		expect(t, r.addresses(), baseOnly)
	})
}

// An equal address that was added by hand is taken over, with its duty to leave when the instance does.
func TestExistingAddressIsAdopted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Configure([]host.Set{set("A", "10.9.0.100/32", "2001:db8::1/128")})
		r.settle()
		r.k.OnChange(nil) // it learns of them from the kernel's refusal
		must(t, r.k.Add("eth0", foreign("10.9.0.100/32")))
		must(t, r.k.Add("eth0", foreign("2001:db8::1/64")))
		r.Want("A", true)
		r.settle()
		if got := r.j.take(); !strings.HasPrefix(got, "present A 10.9.0.100/32\nerror A 2001:db8::1/128") {
			t.Errorf("got %s", got)
		}
		if st := r.Status()[0].Addresses[1]; st.Err == nil || !strings.Contains(st.Err.Error(), "another prefix length") {
			t.Errorf("status %+v", st)
		}
		r.Want("A", false)
		r.settle()
		expect(t, r.addresses(), baseOnly+"ip addr add 2001:db8::1/64 dev eth0\n")
	})
}

// An address whose interface does not exist when it is wanted: a warning, and Status
// says what it waits for until it is there.
func TestAddressWaitsForItsInterface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		core, logs := observer.New(zapcore.WarnLevel)
		r.j = &journal{}
		m := host.NewManager(r.k, r.k, r.file, r.j.callbacks(), zap.New(core))
		r.Manager = m
		r.k.OnChange(func() {
			if s, err := r.k.State(); err == nil {
				m.State(s)
			}
		})
		r.run()
		s := set("A", "10.9.0.100/32")
		s.Addresses = append(s.Addresses, host.Address{Prefix: pfx("10.9.0.101/32"), Dev: "eth7"})
		waits := func(want string) {
			t.Helper()
			a := r.Status()[0].Addresses
			if a[0].Waits != "" || a[1].Waits != want {
				t.Errorf("the addresses wait for %q and %q, want nothing and %q", a[0].Waits, a[1].Waits, want)
			}
		}
		r.Configure([]host.Set{s})
		r.settle()
		waits("") // nobody wants it
		if logs.Len() != 0 {
			t.Errorf("logged before it is wanted: %v", logs.All())
		}
		r.Want("A", true)
		r.settle()
		waits("waits for interface eth7, which does not exist")
		got := logs.TakeAll()
		if len(got) != 1 || got[0].ContextMap()["iface"] != "eth7" || got[0].ContextMap()["address"] != "10.9.0.101/32" {
			t.Errorf("logged %v, want one line on eth7", got)
		}
		r.k.NewLink("eth7")
		must(t, r.k.SetLink("eth7", true, true))
		r.settle()
		waits("")
		if !r.k.Has("eth7", pfx("10.9.0.101/32")) || logs.Len() != 0 {
			t.Errorf("not added to the new interface, or logged: %v", logs.All())
		}
		r.stop()
	})
}

// A dump of many addresses, while others go, can miss one that is there. What is to
// be removed is removed all the same.
func TestMissedAddressIsRemoved(t *testing.T) {
	for _, resigned := range []bool{true, false} { // given up by the instance, or taken out of the configuration
		inBubble(t, func(t *testing.T, r *rig) {
			r.Configure([]host.Set{set("A", "10.9.0.100/32", "10.9.0.101/32")})
			r.Want("A", true)
			r.settle()
			r.k.Fail(hosttest.OpDel, pfx("10.9.0.101/32"), 3, unix.EBUSY)
			if resigned {
				r.Want("A", false)
			} else {
				r.Configure([]host.Set{set("A", "10.9.0.100/32")})
			}
			synctest.Wait()
			if !r.k.Has("eth0", pfx("10.9.0.101/32")) {
				t.Fatal("removed, though the kernel refused it")
			}
			time.Sleep(time.Millisecond)
			s, err := r.k.State()
			must(t, err)
			l := s.Links["eth0"]
			l.Addrs = slices.DeleteFunc(l.Addrs, func(a host.Addr) bool { return a.Prefix == pfx("10.9.0.101/32") })
			r.State(s)
			time.Sleep(5 * time.Second)
			if r.k.Has("eth0", pfx("10.9.0.101/32")) {
				t.Error("an address that a dump missed was left behind")
			}
		})
	}
}
