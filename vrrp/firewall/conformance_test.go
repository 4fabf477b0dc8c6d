package firewall_test

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/vrrp/firewall"
	"vipd/vrrp/firewall/firewalltest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func nft(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v: %s; the tests need the package nftables", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// bench is a kernel and the hands to change it behind the firewall's back.
type bench interface {
	firewall.Kernel
	flush(t *testing.T)
	flushRules(t *testing.T, f firewall.Family, name string)
	others(t *testing.T, f firewall.Family, name string) // makes a table of somebody else
}

type fakeBench struct{ *firewalltest.Kernel }

func (b fakeBench) flush(*testing.T) { b.Flush() }
func (b fakeBench) flushRules(_ *testing.T, f firewall.Family, name string) {
	b.FlushRules(f, name)
}
func (b fakeBench) others(_ *testing.T, f firewall.Family, name string) {
	b.Put(firewall.Table{Family: f, Name: name})
}

type realBench struct{ firewall.NFT }

func (realBench) flush(t *testing.T) { t.Helper(); nft(t, "flush", "ruleset") }
func (realBench) flushRules(t *testing.T, f firewall.Family, name string) {
	t.Helper()
	nft(t, "flush", "table", string(f), name)
}
func (realBench) others(t *testing.T, f firewall.Family, name string) {
	t.Helper()
	nft(t, "add", "table", string(f), name)
}

// benches are the two kernels, by name.
func benches() map[string]func(*testing.T) bench {
	return map[string]func(*testing.T) bench{
		"memory": func(*testing.T) bench { return fakeBench{firewalltest.New()} },
		"linux": func(t *testing.T) bench {
			nft(t, "flush", "ruleset")
			return realBench{}
		},
	}
}

// TestKernelConformance holds the in-memory kernel against the real one.
func TestKernelConformance(t *testing.T) {
	cases := map[string]func(*testing.T, bench){
		"errors": conformErrors, "read back": conformRead, "marks": conformMarks, "options": conformOptions,
		"many": conformMany, "watch": conformWatch, "flushed rules": conformFlushed,
	}
	for kind, open := range benches() {
		for name, test := range cases {
			t.Run(kind+"/"+name, func(t *testing.T) { test(t, open(t)) })
		}
	}
}

var (
	options = firewall.Options{Table: "vipd", Priority: -1}
	both    = firewall.Parts{Refusing: true, Silencing: true}
	four    = firewall.On(netip.MustParseAddr("10.9.0.100"), "eth0")
	six     = firewall.On(netip.MustParseAddr("2001:db8::100"), "eth0")
	local   = firewall.On(netip.MustParseAddr("fe80::100"), "eth0")
	silent  = firewall.Link{Name: "vrrp.51", Parent: 1}
)

func create(f firewall.Family) firewall.Op {
	return firewall.Op{Kind: firewall.OpCreate, Family: f, Table: "vipd", Owner: "/run/vipd", Options: options, Parts: both}
}

func op(kind firewall.OpKind, f firewall.Family) firewall.Op {
	return firewall.Op{Kind: kind, Family: f, Table: "vipd"}
}

func elements(kind firewall.OpKind, f firewall.Family, refused []firewall.Address, silent ...firewall.Link) firewall.Op {
	return firewall.Op{Kind: kind, Family: f, Table: "vipd", Refused: refused, Silent: silent}
}

func list(a ...firewall.Address) []firewall.Address { return a }

// text reads the tables of the name "vipd" and prints them.
func text(t *testing.T, k firewall.Kernel, owner string, names ...string) string {
	t.Helper()
	tables, err := k.Tables(owner, names...)
	must(t, err)
	var s string
	for _, x := range tables {
		s += firewalltest.Text(x)
	}
	return s
}

func wantErr(t *testing.T, err error, want unix.Errno, what string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

func conformErrors(t *testing.T, b bench) {
	wantErr(t, b.Commit([]firewall.Op{op(firewall.OpDelete, firewall.IPv4)}), unix.ENOENT, "deleting a missing table")
	wantErr(t, b.Commit([]firewall.Op{elements(firewall.OpAdd, firewall.IPv4, list(four))}), unix.ENOENT, "adding to a missing table")
	must(t, b.Commit([]firewall.Op{create(firewall.IPv4)}))
	wantErr(t, b.Commit([]firewall.Op{create(firewall.IPv4)}), unix.EEXIST, "creating a table twice")
	add := elements(firewall.OpAdd, firewall.IPv4, list(four), silent)
	must(t, b.Commit([]firewall.Op{add}))
	must(t, b.Commit([]firewall.Op{add})) // the same once more is no error
	moved := elements(firewall.OpAdd, firewall.IPv4, nil, firewall.Link{Name: silent.Name, Parent: 7})
	wantErr(t, b.Commit([]firewall.Op{moved}), unix.EEXIST, "a link with another parent")
	other := firewall.On(netip.MustParseAddr("10.9.0.101"), "")
	bad := elements(firewall.OpRemove, firewall.IPv4, list(firewall.On(netip.MustParseAddr("10.9.0.102"), "")))
	wantErr(t, b.Commit([]firewall.Op{elements(firewall.OpAdd, firewall.IPv4, list(other)), bad}), unix.ENOENT, "removing a missing element")
	if got := text(t, b, "/run/vipd", "vipd"); strings.Contains(got, "10.9.0.101") || !strings.Contains(got, "10.9.0.100") {
		t.Errorf("after a transaction that failed:\n%s", got)
	}
}

func conformRead(t *testing.T, b bench) {
	must(t, b.Commit([]firewall.Op{create(firewall.IPv4), create(firewall.IPv6),
		elements(firewall.OpAdd, firewall.IPv4, list(four), silent), elements(firewall.OpAdd, firewall.IPv6, list(six, local), silent)}))
	want := `table ip vipd of "/run/vipd" { ` + firewall.Form(firewall.IPv4, options, both) + ` }
	refused 10.9.0.100
	silent "vrrp.51" : 1
table ip6 vipd of "/run/vipd" { ` + firewall.Form(firewall.IPv6, options, both) + ` }
	refused 2001:db8::100
	refused fe80::100 . "eth0"
	silent "vrrp.51" : 1
`
	if got := text(t, b, "/run/vipd", "vipd"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	must(t, b.Commit([]firewall.Op{elements(firewall.OpRemove, firewall.IPv6, list(six, local), silent)}))
	if got := text(t, b, "/run/vipd", "vipd"); strings.Contains(got, "db8") || strings.Contains(got, "fe80") {
		t.Errorf("removed elements are still there:\n%s", got)
	}
	must(t, b.Commit([]firewall.Op{op(firewall.OpDelete, firewall.IPv4), op(firewall.OpDelete, firewall.IPv6)}))
	if got := text(t, b, "/run/vipd", "vipd"); got != "" {
		t.Errorf("deleted tables are still there:\n%s", got)
	}
}

func conformMarks(t *testing.T, b bench) {
	long := "/run/" + strings.Repeat("a long directory ", 20)
	mine := create(firewall.IPv4)
	mine.Owner = long
	other := create(firewall.IPv6)
	must(t, b.Commit([]firewall.Op{mine, other}))
	b.others(t, firewall.IPv4, "filter")
	if got := text(t, b, long); !strings.Contains(got, "table ip vipd of") || strings.Contains(got, "ip6") || strings.Contains(got, "filter") {
		t.Errorf("of %s:\n%s", long, got)
	}
	got := text(t, b, long, "vipd", "filter")
	for _, w := range []string{`table ip vipd of "` + long, `table ip6 vipd of "/run/vipd" {  }`, `table ip filter of "" {  }`} {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in:\n%s", w, got)
		}
	}
}

func conformOptions(t *testing.T, b bench) {
	o := firewall.Options{Table: "vipd", Priority: 150, Counters: true}
	c := create(firewall.IPv6)
	c.Options, c.Parts = o, firewall.Parts{Refusing: true}
	must(t, b.Commit([]firewall.Op{c}))
	if got, want := text(t, b, "/run/vipd", "vipd"), firewall.Form(firewall.IPv6, o, c.Parts); !strings.Contains(got, "{ "+want+" }") {
		t.Errorf("got:\n%s\nwant %s", got, want)
	}
	must(t, b.Commit([]firewall.Op{op(firewall.OpDelete, firewall.IPv6), create(firewall.IPv6)}))
	if got, want := text(t, b, "/run/vipd", "vipd"), firewall.Form(firewall.IPv6, options, both); !strings.Contains(got, "{ "+want+" }") {
		t.Errorf("got:\n%s\nwant %s", got, want)
	}
}

func conformMany(t *testing.T, b bench) {
	var many []firewall.Address
	for i := range 3000 {
		a := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 14: byte(i >> 8), 15: byte(i)})
		many = append(many, firewall.On(a, ""), firewall.On(netip.AddrFrom16([16]byte{0xfe, 0x80, 14: byte(i >> 8), 15: byte(i)}), "eth0"))
	}
	must(t, b.Commit([]firewall.Op{create(firewall.IPv6), elements(firewall.OpAdd, firewall.IPv6, many)}))
	tables, err := b.Tables("/run/vipd", "vipd")
	must(t, err)
	if n := len(tables[0].Refused); n != len(many) {
		t.Errorf("%d addresses are refused, want %d", n, len(many))
	}
	must(t, b.Commit([]firewall.Op{elements(firewall.OpRemove, firewall.IPv6, many)}))
}

func conformWatch(t *testing.T, b bench) {
	ctx, cancel := context.WithCancel(t.Context())
	heard, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- b.Watch(ctx, func() { heard <- struct{}{} }) }()
	wait := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(5 * time.Second):
			t.Fatalf("not heard: %s", what)
		}
		for quiet := false; !quiet; {
			select {
			case <-heard:
			case <-time.After(50 * time.Millisecond):
				quiet = true
			}
		}
	}
	wait("the beginning")
	must(t, b.Commit([]firewall.Op{create(firewall.IPv4)}))
	wait("a transaction")
	b.flush(t)
	wait("a flush")
	cancel()
	must(t, <-done)
}

func conformFlushed(t *testing.T, b bench) {
	must(t, b.Commit([]firewall.Op{create(firewall.IPv4), elements(firewall.OpAdd, firewall.IPv4, list(four))}))
	b.flushRules(t, firewall.IPv4, "vipd")
	if got := text(t, b, "/run/vipd", "vipd"); !strings.Contains(got, `of "/run/vipd" { in -1: ; out -1:  }`) || !strings.Contains(got, "10.9.0.100") {
		t.Errorf("a table without rules reads:\n%s", got)
	}
}
