package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vipd/conf"
)

func TestUser(t *testing.T) {
	for _, c := range []struct {
		global, own conf.User
		want        string // "": that of vipd
		fault       string
	}{
		{want: ""},
		{global: conf.User{Name: "nobody"}, want: "nobody"},
		{global: conf.User{Name: "nobody"}, own: conf.User{Name: "root"}, want: "root"},
		{own: conf.User{Name: "nobody-here"}, fault: `looking up the user "nobody-here"`},
		{global: conf.User{Name: "nobody", Group: "none-here"}, fault: `looking up the group "none-here"`},
	} {
		u, err := User(conf.Global{ScriptUser: c.global}, c.own)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: %v, want %s", c, err, c.fault)
			}
		case err != nil || (u == nil) != (c.want == "") || u != nil && u.Name != c.want:
			t.Errorf("%+v: %+v, %v", c, u, err)
		}
	}
}

// What check says beforehand is what would happen.
func TestCheck(t *testing.T) {
	loose := filepath.Join(t.TempDir(), "loose")
	if err := os.WriteFile(loose, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(loose, 0o757); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		secure  bool
		program string
		own     conf.User
		want    string // "": fine
	}{
		{true, "/bin/true", conf.User{}, ""},
		{true, loose, conf.User{}, "refused: " + loose},
		{false, loose, conf.User{}, ""},
		{true, "/nonexistent", conf.User{}, "it cannot be run: "},
		{false, "/nonexistent", conf.User{}, "it cannot be run: "},
		{true, "/bin/true", conf.User{Name: "nobody-here"}, "looking up the user"},
	} {
		err := Check(conf.Global{ScriptSecurity: c.secure}, []string{c.program, "x"}, c.own)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
