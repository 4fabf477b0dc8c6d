package spread

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"vipd/conf"
)

var update = flag.Bool("update", false, "write the expected texts anew")

// example is a file with three spreads: even, with weights, in pairs.
const example = `
[vip_spread.WEB]
directors = ["lvs-1", "lvs-2", "lvs-3", "lvs-4"]
interface = "bond0"
virtual_router_id = "51-80"
groups = 12
virtual_ipaddress = ["203.0.113.64/27"]

[vip_spread.BIG]
directors = ["lvs-1 weight 2", "lvs-2", "lvs-3", "lvs-4", "lvs-5", "<lvs&6>"]
interface = "bond0"
virtual_router_id = "101-107"
virtual_ipaddress = ["198.51.100.0/25"]

[vip_spread.OLD]
directors = ["lvs-1", "lvs-2", "lvs-3"]
scheme = "pairs"
interface = "bond1"
virtual_router_id = "51-56"
virtual_ipaddress = ["fe80::5:1-6", "2001:db8::1-6"]
`

func load(t *testing.T, text string) *conf.Config {
	t.Helper()
	c, diags := conf.Load(fstest.MapFS{"vipd.toml": {Data: []byte(text)}}, "vipd.toml", conf.Env{Hostname: "lvs-2"})
	if c == nil {
		t.Fatal(diags.Text())
	}
	return c
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestText is what an operator reads.
func TestText(t *testing.T) {
	r := New("vipd.toml", load(t, example), "")
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "example.txt", b.String())
}

// TestOne: a name picks one spread.
func TestOne(t *testing.T) {
	if r := New("vipd.toml", load(t, example), "OLD"); len(r.Spreads) != 1 || r.Spreads[0].Name != "OLD" {
		t.Errorf("%+v", r.Spreads)
	}
	if r := New("vipd.toml", load(t, example), "NEW"); len(r.Spreads) != 0 {
		t.Errorf("%+v", r.Spreads)
	}
}

// TestJSON: the names of the fields are what scripts rely on, and the numbers
// agree with each other.
func TestJSON(t *testing.T) {
	text, err := json.MarshalIndent(New("vipd.toml", load(t, example), "OLD"), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "old.json", string(text)+"\n")
	for _, s := range New("vipd.toml", load(t, example), "").Spreads {
		n := len(s.Directors)
		if len(s.Scenarios) != 1+n+n*(n-1)/2 {
			t.Errorf("%s: %d scenarios", s.Name, len(s.Scenarios))
		}
		for _, c := range s.Scenarios {
			groups, addresses := 0, 0
			for _, l := range c.Loads {
				groups, addresses = groups+l.Groups, addresses+l.Addresses
			}
			want := 0
			for _, g := range s.Groups {
				want += len(g.Addresses)
			}
			if groups != len(s.Groups) || addresses != want || len(c.Owners) != groups || len(c.Loads)+len(c.Failed) != n {
				t.Errorf("%s: %+v", s.Name, c)
			}
		}
	}
}

// TestSVG: well-formed, with names escaped, and with a cell for each group and
// each failure.
func TestSVG(t *testing.T) {
	r := New("vipd.toml", load(t, example), "")
	var b bytes.Buffer
	if err := r.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	svg := b.String()
	boxes, texts := 0, 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "rect":
				boxes++
			case "text":
				texts++
			}
		}
	}
	if want := 1 + 12*5 + 4 + 7*7 + 6 + 6*4 + 3; boxes != want {
		t.Errorf("%d boxes, want %d", boxes, want)
	}
	if texts < boxes {
		t.Errorf("only %d texts", texts)
	}
	if !strings.Contains(svg, "&lt;lvs&amp;6&gt;") {
		t.Error("a name is not escaped, or not there")
	}
	golden(t, "example.svg", svg)
}

// TestNothingToShow: a file without a spread.
func TestNothingToShow(t *testing.T) {
	r := New("vipd.toml", load(t, ""), "")
	var text, svg bytes.Buffer
	if err := r.WriteText(&text); err != nil || text.String() != "vipd.toml: there is no vip_spread\n" {
		t.Errorf("%q, %v", text.String(), err)
	}
	if err := r.WriteSVG(&svg); err != nil || !strings.Contains(svg.String(), "no vip_spread") {
		t.Errorf("%q, %v", svg.String(), err)
	}
	if out, err := json.Marshal(r); err != nil || string(out) != `{"config_file":"vipd.toml","vip_spreads":[]}` {
		t.Errorf("%s, %v", out, err)
	}
}

// TestCompare: a director at the end moves the least; a changed number of groups
// gives addresses other VRIDs and is said to.
func TestCompare(t *testing.T) {
	old := New("old.toml", load(t, example), "WEB")
	for _, c := range []struct {
		name, from, to string
		moves          int
		regrouped      int
		added, removed int
	}{
		{"nothing", "", "", 0, 0, 0, 0},
		{"one more", `"lvs-4"]`, `"lvs-4", "lvs-5"]`, 2, 0, 0, 0},
		{"in another's place", `"lvs-1", "lvs-2", "lvs-3", "lvs-4"]`, `"lvs-1", "lvs-2", "lvs-9", "lvs-4"]`, 3, 0, 0, 0},
		{"addresses at the end", `"203.0.113.64/27"]`, `"203.0.113.64/27", "203.0.113.96"]`, 0, 0, 1, 0},
		{"addresses before", `"203.0.113.64/27"]`, `"203.0.113.63", "203.0.113.64/27"]`, 0, 32, 1, 0},
		{"fewer addresses", `"203.0.113.64/27"]`, `"203.0.113.64/28"]`, 0, 0, 0, 16},
		{"groups", `groups = 12`, `groups = 13`, 0, 32 - 12, 0, 0},
		{"interface", `"bond0"`, `"bond7"`, 0, 32, 0, 0},
	} {
		r := New("new.toml", load(t, strings.Replace(example, c.from, c.to, 1)), "WEB")
		r.Compare(old)
		got := r.Spreads[0].Change
		if c.name != "groups" && len(got.Moves) != c.moves || len(got.Regrouped) != c.regrouped || got.Added != c.added || got.Removed != c.removed || !got.Known {
			t.Errorf("%s: %+v", c.name, got)
		}
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if stop := strings.Contains(text.String(), "STOP: "); stop != (c.regrouped > 0) {
			t.Errorf("%s: stop %v", c.name, stop)
		}
		if c.name == "groups" || c.name == "one more" {
			_, end, _ := strings.Cut(text.String(), "Compared with")
			golden(t, strings.ReplaceAll("compare "+c.name, " ", "-")+".txt", "Compared with"+end)
		}
	}
	r := New("new.toml", load(t, example), "OLD")
	r.Compare(old)
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.HasSuffix(text.String(), "\nold.toml has no vip_spread OLD.\n") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// TestColoursDiffer: neighbours in the list can be told apart.
func TestColoursDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := range 16 {
		c := light(6 * float64(i) / 16)
		if len(c) != 7 || seen[c] {
			t.Errorf("colour %d is %s", i, c)
		}
		seen[c] = true
	}
}
