package conf

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// loadWhole is Load without parts and without memory.
func loadWhole(fsys fstest.MapFS, path string) (*Config, Diagnostics) {
	l := &loader{fsys: fsys, env: env, texts: map[string]string{}, whole: true}
	b, diags := l.load(path, &memory{})
	if diags.HasErrors() {
		return nil, diags
	}
	if len(diags) > 0 {
		b.config.Warnings = diags
	}
	return b.config, nil
}

// sameAsWhole checks that a Loader gives what reading everything as a whole gives.
func sameAsWhole(t failer, l *Loader, fsys fstest.MapFS, path string) *Config {
	t.Helper()
	got, diags := l.Load(fsys, path, env)
	want, wantDiags := loadWhole(fsys, path)
	if d := cmp.Diff(wantDiags.Text(), diags.Text()); d != "" {
		t.Fatalf("other diagnostics (-whole +parts):\n%s\nof:\n%s", d, fsys[path].Data)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("another configuration (-whole +parts):\n%s\nof:\n%s", cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })), fsys[path].Data)
	}
	return got
}

// TestPartsOfCorpus: the files of the corpus mean the same, and are refused for the same reasons, in parts and whole.
func TestPartsOfCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sameAsWhole(t, &Loader{}, fstest.MapFS{"vipd.toml": {Data: text}}, "vipd.toml")
	}
}

// partTexts are virtual servers that a reload may find; %d is a number of their own.
var partTexts = []string{
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nTCP_CHECK = {}\nreal_server = [{ address = \"10.0.0.21\" }]\n",
	"  [[virtual_server]] # one\naddress = \"203.0.113.1:%d\"\n[virtual_server.TCP_CHECK]\n[[virtual_server.real_server]]\naddress = \"10.0.0.21:80\"\nweight = 3\n",
	"[[ 'virtual_server' ]]\naddress = \"203.0.113.1:%d\"\nname = '''[[virtual_server]]'''\nTCP_CHECK = {}\nreal_server = [\n{ address = \"10.0.0.21\" }, # ]]\n]\n# [[virtual_server]]\n",
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nsmtp_alert = true\nTCP_CHECK = {}\nreal_server = [{ address = \"10.0.0.21\", smtp_alert = true }]\n",
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nprotocol = \"UDP\"\non_failure = \"inhibit\"\nPING_CHECK = {}\nreal_server = [{ address = \"10.0.0.21\" }]\n",
	"[[virtual_server]]\nfwmark = %d\nhysteresis = 0\nip_family = \"inet6\"\nFILE_CHECK = { track_file = \"load\" }\nreal_server = [{ address = \"2001:db8::1\" }]\n",
	"[[virtual_server]]\naddress = \"203.0.113.2:%d\"\nSSL_GET = { url = [{ path = \"/\" }] }\nreal_server = [{ address = \"10.0.0.21\" }]\n",
	"[[virtual_server]]\naddress = \"203.0.113.2:%d\"\nSSL_GET = { url = [{ path = \"/\" }], SSL = { ca = \"/ca.pem\" } }\nreal_server = [{ address = \"10.0.0.21\" }]\n",
	"[[virtual_server]]\ngroup = \"web\"\nname = \"%d\"\nTCP_CHECK = {}\nreal_server = [{ address = \"10.0.0.21\" }]\n",
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nactive_on = \"master\"\nTCP_CHECK = {}\nreal_server = [{ address = \"10.0.0.21\" }]\n",
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\n",
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nwheight = 1\n",
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nname = \"open\n",
	"[[virtual_server]]\naddress = [\"203.0.113.1:%d\"\n",
	"[[virtual_server]]\naddress = \"203.0.113.1:%d\"\nname = \"\"\"\n[[virtual_server]]\n\"\"\"\"\n",
	"[virtual_server.%d]\n",
	"[virtual_server]\nfwmark = %d\n",
	"[[virtual_server]] x = %d\n",
}

// beside are the other tables.
var beside = []string{
	"", "# nothing\n",
	"[global_defs]\nsmtp_alert_checker = true\n", "[global_defs]\nnotification_email = [\"a@example.com\"]\nsmtp_server = \"192.0.2.1\"\n",
	"[SSL]\nca = \"/ca.pem\"\n",
	"[vrrp_track_file.load]\nfile = \"/run/load\"\n",
	"[virtual_server_group.web]\naddress = [\"203.0.113.9 80\"]\n",
	"[virtual_server_group.web]\naddress = [\"203.0.113.9-10 80\"]\n",
	fmt.Sprintf(smallInstance, "VI_1", 1, 1), fmt.Sprintf(smallInstance, "VI_2", 1, 1),
	"[vrrp_track_file.load]\nfile = \"/run/load\"\n[[garp_group]]\ninterfaces = [\"eth0\"]\ngarp_interval = 1\n",
	"virtual_server = 1\n",
}

// TestLoaderIsLoad: whatever a reload finds, a Loader gives what it would without having read anything before.
func TestLoaderIsLoad(t *testing.T) {
	pem, err := os.ReadFile("testdata/good/tls/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		fsys := fstest.MapFS{"ca.pem": {Data: pem}}
		piece := func(texts []string, likely int) string {
			// What is good comes more often than what ends everything.
			i := rapid.IntRange(0, len(texts)+3*likely-1).Draw(t, "piece")
			text := texts[i%len(texts)]
			if i >= len(texts) {
				text = texts[(i-len(texts))%likely]
			}
			if strings.Contains(text, "%d") {
				text = fmt.Sprintf(text, rapid.IntRange(1, 30).Draw(t, "number"))
			}
			return text
		}
		var l Loader
		var main, more []string
		for range rapid.IntRange(1, 8).Draw(t, "reloads") {
			for range rapid.IntRange(0, 3).Draw(t, "edits") {
				pieces := &main
				if rapid.IntRange(0, 3).Draw(t, "file") == 0 {
					pieces = &more
				}
				at := rapid.IntRange(0, len(*pieces)).Draw(t, "at")
				switch rapid.IntRange(0, 3).Draw(t, "edit") {
				case 0:
					if at < len(*pieces) {
						*pieces = append((*pieces)[:at:at], (*pieces)[at+1:]...)
					}
				case 1:
					*pieces = append((*pieces)[:at:at], append([]string{piece(beside, 2)}, (*pieces)[at:]...)...)
				default:
					*pieces = append((*pieces)[:at:at], append([]string{piece(partTexts, 10)}, (*pieces)[at:]...)...)
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "authority") == 0 {
				fsys["ca.pem"] = &fstest.MapFile{Data: append(append([]byte{}, fsys["ca.pem"].Data...), pem...)}
			}
			fsys["vipd.toml"] = &fstest.MapFile{Data: []byte("include = \"more.toml\"\n" + strings.Join(main, ""))}
			fsys["more.toml"] = &fstest.MapFile{Data: []byte(strings.Join(more, ""))}
			sameAsWhole(t, &l, fsys, "vipd.toml")
		}
	})
}

// TestLoaderShares: a virtual server whose text is as it was is the same, and its neighbour that changed is not.
func TestLoaderShares(t *testing.T) {
	var l Loader
	load := func(text string) []VirtualServer {
		t.Helper()
		return sameAsWhole(t, &l, fstest.MapFS{"vipd.toml": {Data: []byte(text)}}, "vipd.toml").VirtualServers
	}
	shares := func(a, b VirtualServer) bool { return &a.RealServers[0] == &b.RealServers[0] }
	one, two := fmt.Sprintf(smallServer, 1), fmt.Sprintf(smallServer, 2)
	before := load(one + two)
	after := load("# a comment\n" + one + two)
	if shares(before[0], after[0]) || shares(before[1], after[1]) {
		t.Error("shared although what stands beside the virtual servers changed")
	}
	before, after = after, load("# a comment\n"+strings.Replace(two, "TCP_CHECK = {}", "TCP_CHECK = { retry = 3 }", 1)+one)
	if !shares(before[0], after[1]) {
		t.Error("not shared although nothing changed")
	}
	if shares(before[1], after[0]) || after[0].RealServers[0].Checks[0].Retry != 3 {
		t.Error("shared although it changed")
	}
}

// TestLoaderSaysOnce: a warning that is given for the first of several comes for the next one when the first is repaired.
func TestLoaderSaysOnce(t *testing.T) {
	var l Loader
	load := func(text string) []Diagnostic {
		t.Helper()
		return sameAsWhole(t, &l, fstest.MapFS{"vipd.toml": {Data: []byte(text)}}, "vipd.toml").Warnings
	}
	mailed := strings.ReplaceAll(smallServer, "TCP_CHECK", "smtp_alert = true\nTCP_CHECK")
	if n := len(load(fmt.Sprintf(mailed, 1) + fmt.Sprintf(mailed, 2))); n != 1 {
		t.Fatalf("%d warnings", n)
	}
	if w := load(fmt.Sprintf(smallServer, 1) + fmt.Sprintf(mailed, 2)); len(w) != 1 || w[0].Path != "virtual_server[1].smtp_alert" {
		t.Errorf("%v", w)
	}
}

// TestLoaderLetsGoOfFiles: a virtual server that outlives the file it was read from keeps none of its text; the TOML
// library copies what it decodes.
func TestLoaderLetsGoOfFiles(t *testing.T) {
	var l Loader
	text := "[[virtual_server]]\naddress = \"203.0.113.1:80\"\nlvs_sched = \"rr\"\nname = \"web\"\nTCP_CHECK = {}\nreal_server = [{ address = \"10.0.0.21\" }]\n"
	vs := sameAsWhole(t, &l, fstest.MapFS{"vipd.toml": {Data: []byte(text)}}, "vipd.toml").VirtualServers[0]
	for file := range l.last.servers { // it is the text of the file
		from := uintptr(unsafe.Pointer(unsafe.StringData(file)))
		for _, s := range []string{vs.Name, vs.Scheduler, vs.RealServers[0].Checks[0].Kind} {
			if at := uintptr(unsafe.Pointer(unsafe.StringData(s))); at >= from && at < from+uintptr(len(file)) {
				t.Errorf("%q is a part of the file", s)
			}
		}
	}
	if len(l.last.servers) != 1 || vs.Name != "web" || vs.Scheduler != "rr" {
		t.Errorf("%+v", vs)
	}
}
