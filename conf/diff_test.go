package conf

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// load loads a file of the good corpus.
func load(t *testing.T, name string) *Config {
	t.Helper()
	c, diags := Load(os.DirFS("testdata/good"), name, env)
	if c == nil {
		t.Fatalf("%s:\n%s", name, diags.Text())
	}
	return c
}

// linesOf returns the changes as text.
func linesOf(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// TestDiffOfNothing: the same meaning, differently written, is no change.
func TestDiffOfNothing(t *testing.T) {
	for _, name := range []string{"every-vrrp-key.toml", "unicast.toml", "hmac.toml", "every-lvs-key.toml", "example.toml", "mail.toml"} {
		c := load(t, name)
		again, diags := loadText([]byte(c.TOML()))
		if again == nil {
			t.Fatal(diags.Text())
		}
		if changes := Diff(c, again); len(changes) > 0 {
			t.Errorf("%s:\n%s", name, linesOf(changes))
		}
	}
}

// TestDiffSeesEveryField changes every field of a Config in turn: a reload must
// never call a change "nothing changed".
func TestDiffSeesEveryField(t *testing.T) {
	tried := 0
	for _, name := range goodFiles(t) {
		var paths []string
		visit(reflect.ValueOf(load(t, name)).Elem(), "", func(path string, _ reflect.Value) {
			if !withoutMeaning.MatchString(path) {
				paths = append(paths, path)
			}
		})
		before := load(t, name)
		for _, path := range paths {
			changed := load(t, name)
			visit(reflect.ValueOf(changed).Elem(), "", func(p string, v reflect.Value) {
				if p == path {
					mutate(t, v)
				}
			})
			tried++
			if len(Diff(before, changed)) == 0 {
				t.Errorf("%s: Diff does not see a change of %s", name, path)
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// withoutMeaning are fields that another one decides on: what a spread became are its
// instances, an init_file that is not wanted has no value, a single gateway no weight,
// a blackhole no scope, a rule by addresses no mark.
var withoutMeaning = regexp.MustCompile(`^\.(Spreads|VirtualServers.*\.Members|Place\.IPVS|StaticAddresses.*\.Link)|\.SyncGroups.*PriorityChanges|\.TrackFiles.*(InitValue|Overwrite)|` +
	`\.Hops\[0\]\.Weight|\.StaticRoutes\[1\]\.Scope|Rules\[0\]\.(IPv6|Mark|Goto|UIDs)$`)

// visit calls leaf for every field that holds a value.
func visit(v reflect.Value, path string, leaf func(path string, v reflect.Value)) {
	switch x := v.Interface().(type) {
	case netip.Addr, netip.AddrPort, netip.Prefix, MAC:
		leaf(path, v)
		return
	case Command:
		if len(x.Argv) == 0 {
			return // whoever runs no command
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch {
			case !v.Type().Field(i).IsExported(): // of the reading
			case path == "" && (name == "Files" || name == "Warnings"):
			case strings.HasPrefix(path, ".VirtualServers") && name == "IPv6" && v.FieldByName("FWMark").Uint() == 0:
				// follows from the address
			case strings.HasPrefix(path, ".VirtualServers") && (name == "Address" || name == "FWMark") && v.FieldByName("Group").IsValid() && v.FieldByName("Group").Len() > 0:
				// the group says it
			default:
				visit(v.Field(i), path+"."+name, leaf)
			}
		}
	case reflect.Slice:
		for i := range min(v.Len(), 2) {
			visit(v.Index(i), fmt.Sprintf("%s[%d]", path, i), leaf)
		}
		if v.Len() > 0 {
			leaf(path+"[:]", v)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), path, leaf)
		}
	default:
		leaf(path, v)
	}
}

// mutate gives a field another value; of a list it cuts off the last entry.
func mutate(t *testing.T, v reflect.Value) {
	switch v.Interface().(type) {
	case MAC:
		v.Set(reflect.ValueOf(MAC{2, 0, 0, 0, 0, 1}))
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("198.51.100.1")))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.MustParseAddrPort("198.51.100.1:9")))
		return
	case netip.Prefix:
		v.Set(reflect.ValueOf(netip.MustParsePrefix("198.51.100.1/31")))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(v.Slice(0, v.Len()-1))
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(v.Uint() - 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 0.25)
	case reflect.Array:
		mutate(t, v.Index(1))
	default:
		t.Fatalf("a field of kind %s", v.Kind())
	}
}

// TestDiffText: the lines an operator reads in the log after a reload.
func TestDiffText(t *testing.T) {
	const before = `
[vrrp_script.chk]
script = "/bin/true"
[vrrp_instance.VI_1]
interface = "eth0"
virtual_router_id = 51
priority = 100
virtual_ipaddress = ["203.0.113.10", "203.0.113.11"]
authentication = { auth_type = "PASS", auth_pass = "old" }
[vrrp_instance.VI_2]
interface = "eth0"
virtual_router_id = 52
virtual_ipaddress = ["203.0.113.12"]
[[virtual_server]]
address = "203.0.113.10:80"
TCP_CHECK = {}
real_server = [{ address = "10.0.0.21" }, { address = "10.0.0.22" }]
`
	const after = `
[vrrp_script.chk]
script = "/bin/true"
interval = "500ms"
[vrrp_instance.VI_1]
interface = "eth0"
virtual_router_id = 51
priority = 150
virtual_ipaddress = ["203.0.113.10", "203.0.113.13 dev eth1"]
authentication = { auth_type = "PASS", auth_pass = "new" }
[[virtual_server]]
address = "203.0.113.10:80"
TCP_CHECK = { retry = 3 }
real_server = [{ address = "10.0.0.21", weight = 5 }, { address = "10.0.0.23" }]
[[virtual_server]]
address = "203.0.113.10:443"
TCP_CHECK = {}
real_server = [{ address = "10.0.0.21" }]
`
	const want = `vrrp_script chk changed: interval 1s -> 500ms, timeout 1s -> 500ms
vrrp_instance VI_1 changed: priority 100 -> 150, virtual_ipaddress +203.0.113.13/32 dev eth1 -203.0.113.11/32 dev eth0, authentication.auth_pass changed
virtual_server tcp 203.0.113.10:80 changed: real_server 10.0.0.21:80 (weight 1 -> 5, TCP_CHECK (retry 1 -> 3, delay_if_refused 50ms -> 1s)), real_server 10.0.0.23:80 added, real_server 10.0.0.22:80 removed
virtual_server tcp 203.0.113.10:443 added
vrrp_instance VI_2 removed
`
	a, diags := loadText([]byte(before))
	if a == nil {
		t.Fatal(diags.Text())
	}
	b, diags := loadText([]byte(after))
	if b == nil {
		t.Fatal(diags.Text())
	}
	if got := linesOf(Diff(a, b)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// goodFiles are the files of the good corpus that stand for themselves.
func goodFiles(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS("testdata/good"), "*.toml")
	if err != nil || len(names) < 10 {
		t.Fatalf("the good corpus has %d files: %v", len(names), err)
	}
	return names
}

// TestDiffLeavesOut: what is left out of a comparison because it is the same changes nothing in
// what is found.
func TestDiffLeavesOut(t *testing.T) {
	c := load(t, "every-lvs-key.toml")
	all := c.VirtualServers
	other := *c
	heavier := all[0]
	heavier.RealServers = append([]RealServer(nil), heavier.RealServers...)
	heavier.RealServers[0].Weight += 5
	for name, servers := range map[string][]VirtualServer{
		"same": all, "none": nil, "first gone": all[1:], "last gone": all[:len(all)-1], "turned": {all[1], all[0]},
		"changed": append([]VirtualServer{heavier}, all[1:]...), "changed and gone": {heavier}, "changed at the end": append(append([]VirtualServer(nil), all[1:]...), heavier),
	} {
		other.VirtualServers = servers
		for _, pair := range [][2]*Config{{c, &other}, {&other, c}} {
			if got, want := linesOf(Diff(pair[0], pair[1])), linesOf(changes(pair[0].sections(), pair[1].sections())); got != want {
				t.Errorf("%s: got\n%swant\n%s", name, got, want)
			}
		}
	}
}
