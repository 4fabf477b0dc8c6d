package daemon

import (
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/vrrp/host"
)

func TestHindered(t *testing.T) {
	groups := []conf.TrackGroup{{Name: "G", Members: []string{"A", "B"}}, {Name: "H", Members: []string{"B"}}}
	got := hindered(groups, []host.Missing{{What: "route x", Group: "G", Why: "down"}, {What: "rule y", Group: "H", Why: "no"}, {What: "address z", Why: "nobody needs it"}})
	want := map[string][]string{
		"A": {"static route x is missing: down (track_group G)"},
		"B": {"static route x is missing: down (track_group G)", "static rule y is missing: no (track_group H)"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What is missing changes while the state before is being told: the newest comes last.
func TestHindranceTellsTheNewestLast(t *testing.T) {
	first, begun, goOn := true, make(chan bool), make(chan bool)
	var told []string
	h := hindrance{hinder: func(reasons map[string][]string) {
		if first {
			first = false
			close(begun)
			<-goOn
		}
		told = append(told, reasons["A"]...)
	}}
	says := func(why string) func() map[string][]string {
		return func() map[string][]string { return map[string][]string{"A": {why}} }
	}
	var both sync.WaitGroup
	both.Go(func() { h.tell(says("old")) })
	<-begun
	both.Go(func() { h.tell(says("new")) })
	time.AfterFunc(50*time.Millisecond, func() { close(goOn) }) // without a lock the second is through by then
	both.Wait()
	h.tell(func() map[string][]string { return nil })
	if !reflect.DeepEqual(told, []string{"old", "new"}) {
		t.Errorf("told %q", told)
	}
}

// A real-time priority that is not asked for any more is no alarm any more, nor is its limit.
func TestProblemsEndWithTheWish(t *testing.T) {
	p := newPriority(zap.NewNop())
	p.cfg.RTPriority = 50
	p.problems = map[string]string{"vrrp_rt_priority": "refused", "vrrp_rlimit_rttime": "refused"}
	p.Configure(&conf.Global{})
	defer p.Close()
	if left := p.Problems(); len(left) > 0 {
		t.Errorf("there are still problems: %q", left)
	}
}

// Every word of a line arrives at the host: what the host prints is the line again.
func TestHostPaths(t *testing.T) {
	text := `static_routes = [
  "10.7.0.0/16 via 203.0.113.1 dev eth1 table 100 metric 7 tos 0x10 src 203.0.113.10 proto 4 mtu lock 1400 advmss 1300 rto_min 200 quickack 1",
  "local 0.0.0.0/0 dev lo table 77", "10.8.0.0/16 via inet6 fe80::1 dev eth0", "10.9.0.0/16 vrf blue dev eth0 scope 0",
  "10.4.0.0/16 nexthop via 203.0.113.1 dev eth0 weight 3 nexthop via 203.0.113.2 dev eth1 weight 1 onlink", "unreachable 2001:db8::/32 metric 5",
]
static_rules = [
  "not from 10.0.0.0/8 to 10.1.0.0/16 tos 0x10 fwmark 0x7/0xff iif eth0 oif lo uidrange 0-99 ipproto 6 sport 1-2 dport 80-80 table 100 suppress_prefixlength 0 priority 7 proto 4",
  "from all goto 300 priority 8", "from ::/0 l3mdev priority 9", "from 2001:db8::/32 prohibit priority 10",
]
[vrrp_instance.A]
interface = "eth0"
virtual_router_id = 51
promote_secondaries = true
virtual_ipaddress = ["10.9.0.100"]
virtual_ipaddress_excluded = ["2001:db8::1/64 peer 2001:db8::2/100 home mngtmpaddr -nodad preferred_lft 9"]
`
	text = strings.ReplaceAll(text, " proto 4", " protocol 4")
	cfg, diags := conf.Load(fstest.MapFS{"c.toml": {Data: []byte(text)}}, "c.toml", conf.Env{})
	if cfg == nil {
		t.Fatal(diags.Text())
	}
	sets := hostSets(cfg)
	var got []string
	for _, w := range sets[0].Paths {
		got = append(got, w.String())
	}
	want := []string{
		"10.7.0.0/16 via 203.0.113.1 dev eth1 table 100 metric 7 tos 0x10 src 203.0.113.10 proto 4 mtu lock 1400 advmss 1300 rto_min 200 quickack 1",
		"local 0.0.0.0/0 dev lo table 77", "10.8.0.0/16 via inet6 fe80::1 dev eth0", "10.9.0.0/16 dev eth0 vrf blue scope 0",
		"10.4.0.0/16 nexthop via 203.0.113.1 dev eth0 weight 3 nexthop via 203.0.113.2 dev eth1 weight 1 onlink", "unreachable 2001:db8::/32 metric 5",
		"not from 10.0.0.0/8 to 10.1.0.0/16 tos 0x10 fwmark 0x7/0xff iif eth0 oif lo uidrange 0-99 ipproto 6 sport 1-2 dport 80-80 table 100 suppress_prefixlength 0 priority 7 proto 4",
		"from all goto 300 priority 8", "from ::/0 l3mdev priority 9", "from 2001:db8::/32 prohibit priority 10",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	a := sets[1].Addresses[1]
	if a.Prefix != netip.MustParsePrefix("2001:db8::1/100") || a.Peer != netip.MustParseAddr("2001:db8::2") || a.Flags != 0x110 || !a.DAD || a.PreferredLft != 9 || a.Deprecated {
		t.Errorf("the address became %+v", a)
	}
	if s := settings(cfg); len(s) != 1 || s[0].Dev != "eth0" || s[0].Name != "promote_secondaries" {
		t.Errorf("the settings are %v", s)
	}
}
