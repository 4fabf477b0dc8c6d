package conf

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSplitCommand: words as a shell makes them, and what only a shell can do.
func TestSplitCommand(t *testing.T) {
	for _, test := range []struct {
		in    string
		want  []string
		shell string
		ok    bool
	}{
		{"/bin/a b  c", []string{"/bin/a", "b", "c"}, "", true},
		{" a\t\n'b c' d\"e f\"g ", []string{"a", "b c", "de fg"}, "", true},
		{`a '' "" b`, []string{"a", "", "", "b"}, "", true},
		{`a \" \\ b\ c '\n' "\n \" \$x"`, []string{"a", `"`, `\`, "b c", `\n`, `\n " $x`}, "", true},
		{`curl http://x/?a=1&b=2;c`, []string{"curl", "http://x/?a=1&b=2;c"}, "", true},
		{`echo "a || b" '>' \| x`, []string{"echo", "a || b", ">", "|", "x"}, "", true},
		{"a || b", []string{"a", "||", "b"}, "||", true},
		{"a >/dev/null", []string{"a", ">/dev/null"}, ">", true},
		{"a 2>&1", []string{"a", "2>&1"}, "2>", true},
		{"test $(date)", []string{"test", "$(date)"}, "$(", true},
		{"a 'b", []string{"a"}, "", false},
		{`a "b\"`, []string{"a"}, "", false},
		{"", nil, "", true},
	} {
		got, shell, ok := splitCommand(test.in)
		if ok && !slices.Equal(got, test.want) || shell != test.shell || ok != test.ok {
			t.Errorf("%q: %q %q %t, want %q %q %t", test.in, got, shell, ok, test.want, test.shell, test.ok)
		}
	}
}

// TestSuggest: slips are recognised, other words are not.
func TestSuggest(t *testing.T) {
	candidates := rootBlock.names()
	for _, b := range blocks() {
		candidates = append(candidates, b.names()...)
	}
	for word, want := range map[string]string{
		"prioritty": "priority", "Priority": "priority", "priorty": "priority", "pirority": "priority", "router-id": "router_id",
		"virtual_ipadress": "virtual_ipaddress", "advertint": "advert_int", "lb_agol": "lb_algo", "notify_mastr": "notify_master", "TCP_CHEK": "TCP_CHECK",
		"banana": "", "x": "", "unicast": "", "": "",
	} {
		if got := suggest(word, candidates); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {strings.Repeat("a", 65), "", 64}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// TestTimeText: the units of the contract, and what is no time.
func TestTimeText(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "1m": time.Minute, "1m30s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "0s": 0, "0.5s": 500 * time.Millisecond, "10us": 10 * time.Microsecond,
	} {
		if got, ok := timeText(text); !ok || got != want {
			t.Errorf("%q: %s %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "1", "1 s", "s", "-1s", "1.5d", "1x", "d", "1h1d", "99999999h", "1dd", "d1s"} {
		if got, ok := timeText(text); ok {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

// TestEndpoint: every way to write an address with a port.
func TestEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1:80": "10.0.0.1:80", "10.0.0.1 80": "10.0.0.1:80", "10.0.0.1": "10.0.0.1:0", "[2001:db8::1]:80": "[2001:db8::1]:80",
		"2001:db8::1 80": "[2001:db8::1]:80", "[2001:db8::1] 80": "[2001:db8::1]:80", "2001:db8::1": "[2001:db8::1]:0", "[2001:db8::1]": "[2001:db8::1]:0",
	} {
		if got, ok := endpoint(text); !ok || got.String() != want {
			t.Errorf("%q: %s %t, want %s", text, got, ok, want)
		}
	}
	for _, text := range []string{"", " ", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:http", "10.0.0.1 ", "10.0.0.1/32", "[10.0.0.1]:80", "[2001:db8::1", "[2001:db8::1]80",
		"[2001:db8::1]:", "fe80::1%eth0", "::ffff:10.0.0.1", "a b c", "10.0.0.1:-1", "10.0.0.1:+80", "example.org:80"} {
		if got, ok := endpoint(text); ok {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
}

// TestDiagnosticsText: the layout, with a tab before the mark, and the counts.
func TestDiagnosticsText(t *testing.T) {
	ds := Diagnostics{
		{Severity: Error, File: "gw.toml", Line: 8, Col: 3, Width: 6, Source: "\t\tweight = 300", Path: "virtual_server[0].weight", Message: "300 is out of range", Detail: "must be 0..256\nor less"},
		{Severity: Warning, File: "gw.toml", Message: "odd"},
	}
	want := "gw.toml:8:3: error: virtual_server[0].weight: 300 is out of range\n  8 | \t\tweight = 300\n    | \t\t^^^^^^\n  must be 0..256\n  or less\n" +
		"gw.toml: warning: odd\n1 error, 1 warning; configuration not applied\n"
	if got := ds.Text(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := ds.Error(); got != "gw.toml:8:3: error: virtual_server[0].weight: 300 is out of range" {
		t.Errorf("Error: %s", got)
	}
	if got := append(ds, ds[0]).Error(); !strings.HasSuffix(got, "300 is out of range (and 1 more)") {
		t.Errorf("Error of two: %s", got)
	}
	if ds[1:].HasErrors() || !ds.HasErrors() || ds[1:].Text() != "gw.toml: warning: odd\n" {
		t.Errorf("a warning counts as an error")
	}
}
