package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script writes a program and returns its path.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// open lets other users reach a test's directory.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vipd-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRunAsUser(t *testing.T) {
	who := script(t, open(t), "who", `echo "$(id -u) $(id -g) $(id -G)"`)
	u, err := Lookup("nobody", "")
	if err != nil {
		t.Fatal(err)
	}
	// A user of a test machine is in few groups: daemon's own, here in root's place.
	daemon, err := Lookup("daemon", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.AllGroups(); err != nil || len(daemon.Groups) == 0 {
		t.Fatalf("groups %v, %v", daemon.Groups, err)
	}
	daemon.Groups = append(daemon.Groups, 77)
	for _, c := range []struct {
		user *User
		want string
	}{
		{&daemon, "1 1 1 77"},
		{nil, "0 0 0"},
		{&u, "65534 65534 65534"},
		{&User{Name: "12345", UID: 12345, GID: 54321}, "12345 54321 54321"},
	} {
		out := Run(t.Context(), Command{Argv: []string{who}, Env: Environment(), Timeout: 5 * time.Second, User: c.user, Secure: true})
		if !out.OK() || !strings.HasPrefix(out.Output, c.want) || c.user != nil && out.Output != c.want {
			t.Errorf("user %+v: %s, %q; want %q", c.user, out, out.Output, c.want)
		}
	}
	// What only root may enter, another user cannot start, and is told so.
	private := open(t)
	mine := script(t, private, "mine", "exit 0")
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	out := Run(t.Context(), Command{Argv: []string{mine}, User: &u})
	if out.OK() || !strings.Contains(out.String(), "starting as user nobody") || !errors.Is(out.Err, os.ErrPermission) {
		t.Errorf("%v", out.Err)
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name, group string
		uid, gid    uint32
		fault       string
	}{
		{name: "nobody", uid: 65534, gid: 65534},
		{name: "root", group: "nogroup", uid: 0, gid: 65534},
		{name: "65534", group: "7", uid: 65534, gid: 7},
		{name: "4242424", uid: 4242424, gid: 4242424},
		{name: "nobody-here", fault: `looking up the user "nobody-here"`},
		{name: "root", group: "no-such-group", fault: `looking up the group "no-such-group"`},
	} {
		u, err := Lookup(c.name, c.group)
		switch {
		case c.fault != "":
			if err == nil || !strings.HasPrefix(err.Error(), c.fault) {
				t.Errorf("%s %s: %v, want %s", c.name, c.group, err, c.fault)
			}
		case err != nil || u.UID != c.uid || u.GID != c.gid:
			t.Errorf("%s %s: %+v, %v", c.name, c.group, u, err)
		}
	}
	if self := Self(); self.UID != 0 || self.Name != "root" {
		t.Errorf("self is %+v", self)
	}
}

// A program that others could put another one in the place of is refused, however
// they could do it; its twin that only root can change is run.
func TestSecure(t *testing.T) {
	const stranger = 54321
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir, program string) string // what to start
		uid   uint32
		want  string // in the refusal; "": it is run
	}{
		{name: "root's own", want: ""},
		{name: "written by all", want: "can be written by everybody; chmod o-w", spoil: func(t *testing.T, _, p string) string { must(t, os.Chmod(p, 0o757)); return p }},
		{name: "written by a group", want: "can be written by group 54321; chmod g-w", spoil: func(t *testing.T, _, p string) string {
			must(t, os.Chown(p, 0, stranger))
			must(t, os.Chmod(p, 0o775))
			return p
		}},
		{name: "written by root's group", spoil: func(t *testing.T, _, p string) string { must(t, os.Chmod(p, 0o775)); return p }},
		{name: "of a stranger", want: "belongs to user 54321", spoil: func(t *testing.T, _, p string) string { must(t, os.Chown(p, stranger, 0)); return p }},
		{name: "of the user it runs as", uid: stranger, spoil: func(t *testing.T, _, p string) string { must(t, os.Chown(p, stranger, 0)); return p }},
		{name: "directory written by all", want: "can be written by everybody", spoil: func(t *testing.T, d, p string) string { must(t, os.Chmod(d, 0o777)); return p }},
		{name: "sticky directory", spoil: func(t *testing.T, d, p string) string { must(t, os.Chmod(d, 0o777|os.ModeSticky)); return p }},
		{name: "directory of a stranger", want: "belongs to user 54321", spoil: func(t *testing.T, d, p string) string { must(t, os.Chown(d, stranger, 0)); return p }},
		{name: "link to what all can write", want: "can be written by everybody", spoil: func(t *testing.T, d, p string) string {
			must(t, os.Chmod(p, 0o757))
			link := filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink(p, link))
			return link
		}},
	} {
		dir := open(t)
		program := script(t, dir, "program", "exit 0")
		if c.spoil != nil {
			program = c.spoil(t, dir, program)
		}
		err := Secure(program, c.uid)
		var insecure *InsecureError
		if (c.want == "") != (err == nil) || err != nil && (!errors.As(err, &insecure) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if c.uid != 0 {
			continue
		}
		// Run asks the same question each time.
		if out := Run(t.Context(), Command{Argv: []string{program}, Secure: true}); out.OK() != (c.want == "") {
			t.Errorf("%s: run: %s", c.name, out)
		}
		if out := Run(t.Context(), Command{Argv: []string{program}}); !out.OK() {
			t.Errorf("%s: refused without script security: %s", c.name, out)
		}
	}
	if err := Secure("/nonexistent/x", 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
	if err := Secure("sh", 0); err != nil {
		t.Errorf("a program of PATH: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
