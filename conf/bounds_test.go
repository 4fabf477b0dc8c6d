package conf

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// What is no file, or no file of a sane size, is an error at once: opening a named
// pipe would wait, and reading a device would never end.
func TestOnlyFilesAreRead(t *testing.T) {
	good := "[vrrp_instance.A]\ninterface = \"eth0\"\nvirtual_router_id = 1\nvirtual_ipaddress = [\"10.9.0.100\"]\n"
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero")); err != nil {
		t.Fatal(err)
	}
	key := "[vrrp_instance.A]\ninterface = \"eth0\"\nvirtual_router_id = 1\nvirtual_ipaddress = [\"10.9.0.100\"]\nauth_hmac = { key = [\"1 file:" + dir + "/zero\"] }\n"
	for name, text := range map[string]string{
		"good.toml":    good,
		"large.toml":   good + strings.Repeat("#", maxFile),
		"largest.toml": good + strings.Repeat("#", maxFile-len(good)),
		"pipes.toml":   "include = [\"pipe\"]\n",
		"devices.toml": "include = [\"zer*\"]\n" + good,
		"key.toml":     key,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		file, want string
		pipes      bool
	}{
		{"good.toml", "", false},
		{"largest.toml", "", false},
		{"large.toml", "cannot read the file: it is larger than 16 MB", false},
		{"pipe", "cannot read the file: it is a pipe, socket or device, not a file", false},
		{"zero", "cannot read the file: it is a pipe, socket or device, not a file", false},
		{"zero", "cannot read the file: it is larger than 16 MB", true},
		{"pipes.toml", `/pipe": it is a pipe, socket or device, not a file`, false},
		{"devices.toml", `/zero": it is a pipe, socket or device, not a file`, false},
		{"key.toml", "/zero cannot be read: it is a pipe, socket or device, not a file", false},
	} {
		done := make(chan Diagnostics, 1)
		go func() {
			_, diags := Load(os.DirFS("/"), filepath.Join(dir, test.file), Env{Hostname: "h", Pipes: test.pipes})
			done <- diags
		}()
		select {
		case diags := <-done:
			if got := diags.Text(); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%s: %q, want %q in it", test.file, got, test.want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: reading it does not end", test.file)
		}
	}
}

// A caller that reads once may be handed a pipe: vipd check -c <(…).
func TestPipesWhereAsked(t *testing.T) {
	text := []byte("[vrrp_instance.A]\ninterface = \"eth0\"\nvirtual_router_id = 1\nvirtual_ipaddress = [\"10.9.0.100\"]\n")
	fsys := fstest.MapFS{"pipe": {Data: text, Mode: fs.ModeNamedPipe}}
	if c, diags := Load(fsys, "/pipe", Env{Hostname: "h", Pipes: true}); c == nil {
		t.Errorf("a pipe where pipes may be read:\n%s", diags.Text())
	}
	if c, _ := Load(fsys, "/pipe", Env{Hostname: "h"}); c != nil {
		t.Error("a pipe is read where only files may be")
	}
}

// What is nested so deep that the TOML library would take all memory, or the
// stack, is an error with its place; brackets and dots that only look so are not.
func TestDepth(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	for name, test := range map[string]struct {
		text string
		deep bool
	}{
		"arrays":              {"x = " + many("[", 1_000_000) + many("]", 1_000_000), true},
		"arrays over lines":   {"x = " + many("[\n", 100_000) + many("]\n", 100_000), true},
		"tables":              {"x = " + many("{a=", 1_000_000) + "1" + many("}", 1_000_000), true},
		"keys":                {many("a.", 1_000_000) + "a = 1", true},
		"keys with blanks":    {many("a . ", 1_000_000) + "a = 1", true},
		"quoted keys":         {many(`"a".`, 1_000_000) + "a = 1", true},
		"headers":             {"[" + many("a.", 1_000_000) + "a]", true},
		"after strings":       {`x = """` + "\n\"[\n" + `"""` + "\ny = 'a\\'\nz = " + many("[", 1000), true},
		"allowed":             {"x = " + many("[", maxDepth) + many("]", maxDepth), false},
		"side by side":        {"x = [" + many("[], {a = 1},\n", 10_000) + "]", false},
		"in comments":         {"# " + many("[", 1000) + "\nx = 1 # " + many("a.", 1000), false},
		"in strings":          {`x = "` + many("[", 1000) + `"`, false},
		"in escapes":          {`x = "\"` + many("[", 1000) + `"`, false},
		"in literal strings":  {"x = '" + many("[.", 1000) + "'", false},
		"in long strings":     {`x = """` + "\n" + many("[\n", 1000) + `"""`, false},
		"in long literals":    {"x = '''\n'" + many("[.\n", 1000) + "'''", false},
		"numbers":             {"x = [" + many("1.5, ", 1000) + "1.5]", false},
		"numbers, line ends":  {many("x.y = 1\n", 1000), false},
		"comment at the end":  {"x = 1\n#", false},
		"string without end":  {`x = "`, false},
		"backslash at end":    {`x = "\`, false},
		"long without end":    {`x = """ " `, false},
		"only closing":        {many("]", 1000), false},
		"one quote at end":    {"'", false},
		"nothing":             {"", false},
		"string to next line": {"x = \"[[\ny = " + many("[", 10), false},
	} {
		if _, deep := tooDeep(test.text); deep != test.deep {
			t.Errorf("%s: too deep is %v, want %v", name, deep, test.deep)
		}
		if !test.deep {
			continue
		}
		_, diags := Load(tree(map[string]string{"f.toml": test.text}), "/f.toml", env)
		if got := diags.Text(); !strings.Contains(got, "more than 64 deep") || strings.Count(got, "error:") != 1 || len(got) > 2000 {
			t.Errorf("%s: %.2000s", name, got)
		}
	}
}
