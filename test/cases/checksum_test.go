package cases

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O10: over IPv4, version 3 checksums are made with a pseudo-header by some and
// without by others; whoever refuses the other form becomes a second master.
//
// Claim: the form to send is a setting (v3_checksum_as_v2), both are accepted, and
// a peer that sends the other one is named. What is right in neither is dropped,
// counted and logged. IPv6 has the one form with a pseudo-header.

const (
	checksumInterval = 200 * time.Millisecond
	plainForm        = "v3_checksum_as_v2 true"
	otherForm        = "it may refuse our adverts; set v3_checksum_as_v2 = "
)

// checksumInstance is the instance of one director.
func checksumInstance(f family, priority int, extra ...string) lab.Instance {
	return lab.Instance{Name: f.instance, VRID: f.vrid, Priority: priority, Interval: checksumInterval, VIPs: f.vips, Extra: extra}
}

// soleMaster checks that the node alone advertises and owns for a while.
func soleMaster(t *testing.T, l *lab.Lab, seen *lab.Capture, f family, n *lab.Node) []lab.Advert {
	t.Helper()
	seen.WaitAdvert(5*time.Second, f.vrid, f.source(n), time.Now())
	l.WaitOwner(f.vip, 5*time.Second, n.Name)
	from := time.Now()
	for end := from.Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got := l.Owners(f.vip); !slices.Equal(got, []string{n.Name}) {
			t.Fatalf("%v is owned by %v, want %s alone", f.vip, got, n.Name)
		}
	}
	all := lab.Between(seen.Adverts(f.vrid), from, time.Now())
	if other := lab.Filter(all, func(a lab.Advert) bool { return a.Src != f.source(n) }); len(other) > 0 {
		t.Errorf("another master: %v", other)
	}
	return all
}

func TestO10ThreeNodesOfEachForm(t *testing.T) {
	t.Parallel()
	four := families()[0]
	for _, c := range []struct {
		name  string
		plain [3]bool
	}{
		{"with the pseudo-header", [3]bool{}},
		{"without", [3]bool{true, true, true}},
		{"mixed", [3]bool{true, false, true}},
		{"mixed the other way", [3]bool{false, true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, "d1", "d2", "d3", "cl")
			seen := l.Node("cl").Capture()
			for i, n := range l.Nodes("d1", "d2", "d3") {
				var extra []string
				if c.plain[i] {
					extra = []string{plainForm}
				}
				n.Vipd(lab.VipdConf("", checksumInstance(four, 200-50*i, extra...)))
			}
			want := withPseudo
			if c.plain[0] {
				want = withoutPseudo
			}
			for _, a := range soleMaster(t, l, seen, four, l.Node("d1")) {
				if got := covers(a); got != want {
					t.Fatalf("d1 sends form %d, want %d: % x", got, want, a.Payload)
				}
			}
		})
	}
}

// A keepalived of Debian sends and accepts the form with the pseudo-header alone.
func TestO10BesideKeepalived(t *testing.T) {
	t.Parallel()
	for _, f := range families() {
		for _, plain := range []bool{false, true} {
			var extra []string
			name := f.name
			if plain {
				if f.vip.Is6() {
					continue // a setting without effect there
				}
				extra, name = []string{plainForm}, name+", vipd sends without the pseudo-header"
			}
			t.Run(name+", keepalived is better", func(t *testing.T) {
				t.Parallel()
				l := lab.New(t, "d1", "d2", "cl")
				seen := l.Node("cl").Capture()
				l.Node("d1").Keepalived(lab.KeepalivedConf("", checksumInstance(f, 200)))
				l.WaitOwner(f.vip, 10*time.Second, "d1")
				v := l.Node("d2").Vipd(lab.VipdConf("", checksumInstance(f, 100, extra...)))
				soleMaster(t, l, seen, f, l.Node("d1"))
				named(t, v, plain, l.Node("d1").Addr().String()+" sends checksums with the IPv4 pseudo-header, we send them without: "+otherForm+"false")
			})
			t.Run(name+", vipd is better", func(t *testing.T) {
				t.Parallel()
				l := lab.New(t, "d1", "d2", "cl")
				seen := l.Node("cl").Capture()
				v := l.Node("d1").Vipd(lab.VipdConf("", checksumInstance(f, 200, extra...)))
				l.WaitOwner(f.vip, 10*time.Second, "d1")
				ka := l.Node("d2").Keepalived(lab.KeepalivedConf("", checksumInstance(f, 100)))
				if !plain {
					soleMaster(t, l, seen, f, l.Node("d1"))
					named(t, v, false, otherForm)
					return
				}
				// The fault of the report. vipd cannot heal it, but must say what to do.
				ka.WaitLog("Invalid VRRPv3 checksum", 10*time.Second)
				l.WaitOwner(f.vip, 10*time.Second, "d1", "d2")
				v.WaitLog("10.9.0.2 sends checksums with the IPv4 pseudo-header.*"+otherForm+"false", 5*time.Second)
			})
		}
	}
}

// named checks that the log names a peer of the other form, or nobody.
func named(t *testing.T, v *lab.Daemon, want bool, text string) {
	t.Helper()
	if got := strings.Contains(v.Log(), text); got != want {
		t.Errorf("the log says %q: %v, want %v", text, got, want)
	}
}

func TestO10HandMadeForms(t *testing.T) {
	t.Parallel()
	type made struct {
		name    string
		sum     coverage
		yields  bool
		says    string // in the log
		counter string // in status
	}
	accepted := made{name: "with the pseudo-header", sum: withPseudo, yields: true}
	wrong := made{name: "neither", sum: neither, says: "its checksum is wrong", counter: "packets_dropped_checksum"}
	forms := map[string][]made{
		"IPv4": {accepted, {name: "without", sum: withoutPseudo, yields: true, says: "10.9.0.11 sends checksums without the IPv4 pseudo-header, we send them with: " + otherForm + "true"}, wrong},
		"IPv6": {accepted, {name: "without", sum: withoutPseudo, counter: "packets_dropped_checksum"}, wrong},
	}
	for _, f := range families() {
		for _, m := range forms[f.name] {
			t.Run(f.name+" "+m.name, func(t *testing.T) {
				t.Parallel()
				l := lab.New(t, "d1", "r1", "cl")
				d1, r1 := l.Node("d1"), l.Node("r1")
				seen := l.Node("cl").Capture()
				v := d1.Vipd(lab.VipdConf("", checksumInstance(f, 100)))
				l.WaitOwner(f.vip, 10*time.Second, "d1")
				before := time.Now()
				for range 5 {
					advert{src: f.source(r1), vrid: f.vrid, priority: 200, interval: checksumInterval, addrs: f.vips, sum: m.sum}.send(r1)
					time.Sleep(checksumInterval)
				}
				if got := l.Owners(f.vip); (len(got) == 0) != m.yields {
					t.Errorf("owned by %v, want d1 to yield: %v", got, m.yields)
				}
				mine := lab.Between(lab.From(seen.Adverts(f.vrid), f.source(d1)), before.Add(checksumInterval), time.Now())
				if (len(mine) == 0) != m.yields {
					t.Errorf("%d adverts of d1 meanwhile, want it to yield: %v", len(mine), m.yields)
				}
				if got := strings.Contains(v.Log(), otherForm); got != strings.Contains(m.says, otherForm) || !strings.Contains(v.Log(), m.says) {
					t.Errorf("the log does not say %q, or names the other form in vain", m.says)
				}
				if n, _ := v.Status().Counters[m.counter].(float64); m.counter != "" && n != 5 {
					t.Errorf("%s is %v, want 5", m.counter, n)
				}
			})
		}
	}
}
