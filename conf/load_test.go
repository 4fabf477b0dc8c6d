package conf

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

const smallInstance = "[vrrp_instance.%s]\ninterface = \"eth0\"\nvirtual_router_id = %d\nvirtual_ipaddress = [\"203.0.113.%d\"]\n"

const smallServer = "[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nTCP_CHECK = {}\nreal_server = [{ address = \"10.0.0.21\" }]\n"

// tree is a file system of texts.
func tree(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// TestInclude: files are read in name order, relative to the including file,
// each once; arrays of tables are joined in that order, named tables are
// gathered.
func TestInclude(t *testing.T) {
	fsys := tree(map[string]string{
		"etc/vipd/vipd.toml":         "include = [\"conf.d/*.toml\", \"conf.d/10-a.toml\", \"empty.d/*.toml\"]\n" + fmt.Sprintf(smallInstance, "main", 1, 1) + fmt.Sprintf(smallServer, 1),
		"etc/vipd/conf.d/20-b.toml":  fmt.Sprintf(smallInstance, "b", 2, 2) + fmt.Sprintf(smallServer, 3),
		"etc/vipd/conf.d/10-a.toml":  "include = \"sub/x.toml\"\n" + fmt.Sprintf(smallInstance, "a", 3, 3) + fmt.Sprintf(smallServer, 2),
		"etc/vipd/conf.d/sub/x.toml": "[global_defs]\nvrrp_version = 3\n",
		"etc/vipd/conf.d/ignored":    "this is no TOML",
	})
	for _, test := range []struct{ path, dir, first string }{
		{"/etc/vipd/vipd.toml", "", "/etc/vipd/vipd.toml"},
		{"etc/vipd/vipd.toml", "", "etc/vipd/vipd.toml"},
		{"vipd.toml", "/etc/vipd", "vipd.toml"},
		{"../vipd.toml", "/etc/vipd/conf.d", "../vipd.toml"},
	} {
		c, diags := Load(fsys, test.path, Env{Hostname: "h", Dir: test.dir})
		if c == nil {
			t.Errorf("%s in %q:\n%s", test.path, test.dir, diags.Text())
			continue
		}
		base := strings.TrimSuffix(test.first, "vipd.toml")
		want := []string{test.first, base + "conf.d/10-a.toml", base + "conf.d/sub/x.toml", base + "conf.d/20-b.toml"}
		if !slices.Equal(c.Files, want) {
			t.Errorf("%s in %q: files %q, want %q", test.path, test.dir, c.Files, want)
		}
		var names, services []string
		for _, in := range c.Instances {
			names = append(names, fmt.Sprintf("%s v%d", in.Name, in.Version))
		}
		for _, vs := range c.VirtualServers {
			services = append(services, vs.Name)
		}
		if got := fmt.Sprint(names, services); got != "[a v3 b v3 main v3] [tcp 203.0.113.1:1 tcp 203.0.113.1:2 tcp 203.0.113.1:3]" {
			t.Errorf("%s: %s", test.path, got)
		}
	}
}

// TestErrorsOfAllFilesAtOnce: a mistake in one included file does not hide
// those in another, and positions name the right file.
func TestErrorsOfAllFilesAtOnce(t *testing.T) {
	_, diags := Load(tree(map[string]string{
		"vipd.toml": "include = [\"a.toml\", \"b.toml\", \"c.toml\"]\n[global_defs]\nvrrp_version = 4\n",
		"a.toml":    "[vrrp_script.x]\nscript = \"/bin/true\"\nrise = 0\n",
		"b.toml":    "this is not = toml at all",
		"c.toml":    "\n\n[[virtual_server]]\naddress = \"203.0.113.1:80\"\nlvs_sched = \"random\"\n",
	}), "vipd.toml", env)
	var got []string
	for _, d := range diags {
		got = append(got, fmt.Sprintf("%s:%d:%d %s", d.File, d.Line, d.Col, d.Rule))
	}
	want := []string{"vipd.toml:3:1 global_defs.vrrp_version/range", "a.toml:3:1 vrrp_script.rise/range", "b.toml:1:6 file/toml", "c.toml:5:1 virtual_server.lvs_sched/word"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestKeepalivedConf: a keepalived.conf is recognised in the shapes people
// write, and a TOML file with a syntax error is not taken for one.
func TestKeepalivedConf(t *testing.T) {
	for _, text := range []string{
		"vrrp_instance VI_1 {\n}\n",
		"! comment\n\n  vrrp_instance  VI_1{\n",
		"global_defs\n{\n",
		"virtual_server 10.0.0.1 80{\n",
		"virtual_server fwmark 7 {\n",
		"vrrp_script chk { # comment\n",
		"include foo.conf\r\nvrrp_sync_group G1 {\r\n",
		"virtual_server_group G ! x\n{\n",
	} {
		_, diags := loadText([]byte(text))
		if len(diags) != 1 || diags[0].Rule != "file/keepalived" || !strings.Contains(diags[0].Detail, "vipd convert vipd.toml -o vipd.toml") {
			t.Errorf("%q is not recognised:\n%s", text, diags.Text())
		}
	}
	for _, text := range []string{
		"vrrp_instance = {\n",
		"[vrrp_instance.VI_1]\nauthentication { auth_type = \"PASS\" }\n",
		"# vrrp_instance VI_1 {\nx = \n",
		"notes = '''\nvrrp_instance VI_1\n'''\ny",
	} {
		_, diags := loadText([]byte(text))
		if len(diags) != 1 || diags[0].Rule != "file/toml" {
			t.Errorf("%q: want a TOML error:\n%s", text, diags.Text())
		}
	}
	_, diags := Load(tree(map[string]string{"my $file.conf": "global_defs {\n}"}), "my $file.conf", env)
	if want := "vipd convert 'my $file.conf' -o vipd.toml"; !strings.Contains(diags.Text(), want) {
		t.Errorf("the line to run is not quoted for the shell:\n%s", diags.Text())
	}
}

// TestNoPasswordInDiagnostics: diagnostics go to terminals and logs.
func TestNoPasswordInDiagnostics(t *testing.T) {
	for _, line := range []string{
		`auth_pass = "topsecret"`, `auth_pas = "topsecret"`, `auth_pass = 'topsecret' # x`, `"auth_pass" = "topsecret`, `auth_pass = topsecret`, `auth_pass = "top\tsecret"`, `auth_pass="topsecret"`,
	} {
		_, diags := loadText([]byte(fmt.Sprintf(smallInstance, "VI_1", 1, 1) + "version = 3\n[vrrp_instance.VI_1.authentication]\nauth_type = \"PAS\"\n" + line + "\n"))
		if text := diags.Text(); !diags.HasErrors() || strings.Contains(text, "topsecret") || strings.Contains(text, "secret\"") {
			t.Errorf("%s:\n%s", line, text)
		}
	}
}

// TestNoKeyInDiagnostics: nor do the keys of auth_hmac.
func TestNoKeyInDiagnostics(t *testing.T) {
	const hexKey, textKey = "00112233445566778899aabbccddeeff", "correct-horse-battery-staple-and-more"
	for _, lines := range []string{
		"key = [\"1 hex:" + hexKey + "\"]", "key = \"1 " + textKey + "\"\nactive_key = 2", "key = [\n  \"1 hex:" + hexKey + "\",\n  \"x =" + textKey + "\",\n  \"1 " + textKey + "\",\n  \"1 " + textKey + " and a space\"]",
		"key = { id = 1, key = \"" + textKey + "\", kee = 1 }", "key = \"" + textKey + "\"", "key = { id = \"1\", key = 'hex:" + hexKey + "' }", "keys = \"1 " + textKey + "\"",
		"key = { id = 300, key = \"" + textKey + "\" }",
	} {
		_, diags := loadText([]byte(fmt.Sprintf(smallInstance, "VI_1", 1, 1) + "[vrrp_instance.VI_1.auth_hmac]\n" + lines + "\n"))
		if text := diags.Text(); !diags.HasErrors() || strings.Contains(text, hexKey[:16]) || strings.Contains(text, textKey[:16]) || strings.Contains(text, textKey[16:]) {
			t.Errorf("%s:\n%s", lines, text)
		}
	}
}

// TestAdvertRoom: the limits of RFC 3768 and RFC 9568 packets on Ethernet.
func TestAdvertRoom(t *testing.T) {
	for _, test := range []struct {
		version uint8
		ipv6    bool
		want    int
	}{{2, false, 255}, {3, false, 255}, {3, true, 90}} {
		if got := advertRoom(test.version, test.ipv6, false); got != test.want {
			t.Errorf("version %d, IPv6 %t: %d, want %d", test.version, test.ipv6, got, test.want)
		}
	}
	for count, good := range map[int]bool{255: true, 256: false} {
		var b strings.Builder
		fmt.Fprintf(&b, "[vrrp_instance.VI_1]\ninterface = \"eth0\"\nvirtual_router_id = 1\nvirtual_ipaddress = [")
		for i := range count {
			fmt.Fprintf(&b, "\"10.0.%d.%d\",", i/200, i%200+1)
		}
		b.WriteString("]\n")
		if c, _ := loadText([]byte(b.String())); (c != nil) != good {
			t.Errorf("%d addresses: accepted %t, want %t", count, c != nil, good)
		}
	}
}

// TestAdvertInterval (O11): the values that are allowed, beside those refused
// in testdata/bad/vrrp_instance.advert_int-version.toml.
func TestAdvertInterval(t *testing.T) {
	for _, test := range []struct {
		version int
		written string
		want    time.Duration
	}{
		{2, "1", time.Second}, {2, "1.0", time.Second}, {2, "255", 255 * time.Second}, {2, `"4m"`, 4 * time.Minute},
		{3, "0.01", 10 * time.Millisecond}, {3, "0.4", 400 * time.Millisecond}, {3, "40.95", 40950 * time.Millisecond}, {3, `"10ms"`, 10 * time.Millisecond}, {3, "0.29", 290 * time.Millisecond},
		{2, "0.4", 0}, {2, "0.5", 0}, {2, "1.5", 0}, {2, "0", 0}, {2, "256", 0}, {3, "41", 0}, {3, "0", 0}, {3, "0.005", 0}, {3, "40.955", 0}, {3, "-1", 0}, {3, "nan", 0}, {3, "inf", 0}, {3, "1e300", 0},
	} {
		text := fmt.Sprintf(smallInstance, "VI_1", 1, 1) + fmt.Sprintf("version = %d\nadvert_int = %s\n", test.version, test.written)
		c, diags := loadText([]byte(text))
		switch {
		case test.want == 0 && (c != nil || len(diags) != 1 || diags[0].Line != 6):
			t.Errorf("version %d, advert_int = %s: want one error that names line 6:\n%s", test.version, test.written, diags.Text())
		case test.want != 0 && c == nil:
			t.Errorf("version %d, advert_int = %s is refused:\n%s", test.version, test.written, diags.Text())
		case test.want != 0 && c.Instances[0].AdvertInterval != test.want:
			t.Errorf("version %d, advert_int = %s: %s, want %s", test.version, test.written, c.Instances[0].AdvertInterval, test.want)
		}
	}
}

// bigFile writes 500 services with 20 servers each.
func bigFile() []byte {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "[[virtual_server]]\naddress = \"10.1.%d.%d:80\"\nlvs_sched = \"wlc\"\nlvs_method = \"DR\"\ndelay_loop = 2\n", i/250, i%250+1)
		for j := range 20 {
			fmt.Fprintf(&b, "  [[virtual_server.real_server]]\n  address = \"10.2.%d.%d:80\"\n  weight = %d\n", i%250, j+1, j+1)
			fmt.Fprintf(&b, "    [virtual_server.real_server.HTTP_GET]\n    connect_timeout = 3\n    retry = 2\n    url = [{ path = \"/health\", status_code = \"200-299\" }]\n")
		}
	}
	return []byte(b.String())
}

// cpuTime returns the processor time that this process has used, on all cores.
func cpuTime(t *testing.T) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestBigFileIsFast: 10,000 servers load in less than 300 ms. Processor time of
// the best of some tries counts, for other tests use the machine too; on a
// machine that is too slow or too busy for that, not even the TOML library alone
// keeps to a third of the limit, and then three times its time is the limit.
func TestBigFileIsFast(t *testing.T) {
	text := bigFile()
	best, library := time.Hour, time.Hour
	for range 8 {
		start := cpuTime(t)
		c, diags := loadText(text)
		best = min(best, cpuTime(t)-start)
		if c == nil {
			t.Fatal(diags.Text())
		}
		if n := len(c.VirtualServers) * len(c.VirtualServers[499].RealServers); n != 10000 {
			t.Fatalf("%d servers", n)
		}
		start = cpuTime(t)
		if _, err := decode(string(text), &map[string]any{}); err != nil {
			t.Fatal(err)
		}
		library = min(library, cpuTime(t)-start)
		if best < max(limit, 3*library) {
			return
		}
	}
	t.Errorf("loading took %s of processor time at best, want less than %s; the TOML library alone took %s", best, limit, library)
}

// BenchmarkLoad measures the same file.
func BenchmarkLoad(b *testing.B) {
	text := bigFile()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if c, _ := loadText(text); c == nil {
			b.Fatal("refused")
		}
	}
}

// TestRealFileSystem: Load works on what a caller hands in, os.DirFS("/").
func TestRealFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/vipd.toml", []byte("include = \""+dir+"/x*.toml\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/x1.toml", []byte(fmt.Sprintf(smallInstance, "VI_1", 1, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	c, diags := Load(os.DirFS("/"), dir+"/vipd.toml", env)
	if c == nil || len(c.Instances) != 1 || c.Files[1] != dir+"/x1.toml" {
		t.Errorf("%+v\n%s", c, diags.Text())
	}
	if _, diags := Load(os.DirFS("/"), dir, env); len(diags) != 1 || diags[0].Rule != "file/read" {
		t.Errorf("a directory: %s", diags.Text())
	}
}

// A file of one line with thousands of errors, or of one endless line, is refused at once: a reload waits for it.
func TestErrorsOnOneLongLine(t *testing.T) {
	var keys strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&keys, "a%d = 1, ", i)
	}
	for text, want := range map[string]string{
		"vrrp_instance = { A = { " + keys.String() + "interface = \"eth0\" } }\n": `unknown key "a2999"`,
		"x = " + strings.Repeat("[", 3_000_000):                                   "more than 64 deep",
	} {
		begun := time.Now()
		_, diags := Load(fstest.MapFS{"vipd.toml": {Data: []byte(text)}}, "vipd.toml", env)
		if !strings.Contains(diags.Text(), want) {
			t.Errorf("no %q", want)
		}
		if d := time.Since(begun); d > 3*time.Second { // 0.1 s on a free machine
			t.Errorf("%s: after %v", want, d)
		}
	}
}
