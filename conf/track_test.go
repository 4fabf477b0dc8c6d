package conf

import (
	"fmt"
	"testing"
)

// A line of track_script, track_file and track_process changes what it says of the
// object's weight, and keeps the rest: as keepalived has it, a weight alone keeps
// "reverse".
func TestTrackWeights(t *testing.T) {
	const tables = "[vrrp_script.x]\nscript = \"/bin/true\"\nweight = %[1]s\n" +
		"[vrrp_track_file.x]\nfile = \"/run/x\"\nweight = %[1]s\n[vrrp_track_process.x]\nprocess = \"x\"\nweight = %[1]s\n"
	const instance = "[vrrp_instance.A]\ninterface = \"eth0\"\nvirtual_router_id = 1\nvirtual_ipaddress = [\"10.9.0.100\"]\n" +
		"track_script = [%[1]s]\ntrack_file = [%[1]s]\ntrack_process = [%[1]s]\n"
	for _, test := range []struct{ object, line, want string }{
		{`-20`, `"x"`, "x weight -20"},
		{`-20`, `"x weight 30"`, "x weight 30"},
		{`-20`, `"x weight 30 reverse"`, "x weight 30 reverse"},
		{`-20`, `"x reverse"`, "x weight -20 reverse"},
		{`-20`, `"x weight 30 noreverse"`, "x weight 30"},
		{`"-20 noreverse"`, `"x"`, "x weight -20"},
		{`"-20 no_reverse"`, `"x reverse weight 5"`, "x weight 5 reverse"},
		{`"-20 reverse"`, `"x"`, "x weight -20 reverse"},
		{`"-20 reverse"`, `"x weight 30"`, "x weight 30 reverse"},
		{`"-20 reverse"`, `"x weight 0"`, "x weight 0 reverse"},
		{`"-20 reverse"`, `"x weight 30 noreverse"`, "x weight 30 noreverse"},
		{`"-20 reverse"`, `"x weight 30 no_reverse"`, "x weight 30 noreverse"},
		{`"-20 reverse"`, `"x noreverse"`, "x weight -20 noreverse"},
		{`"-20 reverse"`, `{ name = "x", weight = 30 }`, "x weight 30 reverse"},
		{`"-20 reverse"`, `{ name = "x", weight = 30, reverse = false }`, "x weight 30 noreverse"},
		{`"-20 reverse"`, `{ name = "x", noreverse = true }`, "x weight -20 noreverse"},
		{`-20`, `{ name = "x", reverse = true }`, "x weight -20 reverse"},
	} {
		text := fmt.Sprintf(tables, test.object) + fmt.Sprintf(instance, test.line)
		c, diags := Load(tree(map[string]string{"f.toml": text}), "/f.toml", env)
		if c == nil {
			t.Errorf("weight = %s and %s:\n%s", test.object, test.line, diags.Text())
			continue
		}
		in := c.Instances[0]
		for _, list := range [][]TrackRef{in.TrackScripts, in.TrackFiles, in.TrackProcesses} {
			if got := list[0].String(); got != test.want {
				t.Errorf("weight = %s and %s give %q, want %q", test.object, test.line, got, test.want)
			}
			if list[0].Reverse && list[0].Straight {
				t.Errorf("weight = %s and %s: both ways", test.object, test.line)
			}
		}
		again, diags := Load(tree(map[string]string{"f.toml": c.TOML()}), "/f.toml", env)
		if again == nil {
			t.Errorf("weight = %s and %s, printed:\n%s", test.object, test.line, diags.Text())
		} else if d := Diff(c, again); len(d) != 0 {
			t.Errorf("weight = %s and %s, printed and read: %v", test.object, test.line, d)
		}
	}
}
