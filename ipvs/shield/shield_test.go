package shield_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vipd/ipvs/shield"
	"vipd/test/ownns"
)

// TestMain runs all tests in a network namespace of their own.
func TestMain(m *testing.M) { ownns.Main(m) }

func sh(t *testing.T, line string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s (the packages iproute2 and nftables are needed)", line, err, out)
	}
	return string(out)
}

// refused tries a port where nobody listens, and reports whether it was answered with a reset.
func refused(t *testing.T, to string) bool {
	t.Helper()
	c, err := net.DialTimeout("tcp", to, 300*time.Millisecond)
	switch {
	case err == nil:
		c.Close()
		t.Fatalf("%s accepts connections", to)
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	}
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatal(err)
	}
	return false
}

// TestResetsAreHeldBack: from shielded addresses alone, in both families, until they are no longer shielded; rules that
// others flush come back, and at the end nothing is left.
func TestResetsAreHeldBack(t *testing.T) {
	sh(t, "ip addr add 10.9.0.100/32 dev lo; ip addr add 10.9.0.101/32 dev lo; ip addr add 2001:db8::100/128 dev lo nodad; nft add table inet other")
	const four, six, bystander = "10.9.0.100:81", "[2001:db8::100]:81", "10.9.0.101:81"
	expect := func(what string, want bool) {
		t.Helper()
		for _, to := range []string{four, six} {
			if refused(t, to) != want {
				t.Errorf("%s: %s was reset: %v", what, to, !want)
			}
		}
		if !refused(t, bystander) {
			t.Errorf("%s: a reset of another address was held back", what)
		}
	}
	record := filepath.Join(t.TempDir(), "shield")
	s := shield.New(record, nil)
	armed := []netip.Addr{netip.MustParseAddr("2001:db8::100"), netip.MustParseAddr("10.9.0.100")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("before", true)
	sh(t, "nft add table ip vipd_shield") // left by a crash
	must(s.Want("vipd_shield", armed))
	expect("shielded", false)
	must(s.Want("vipd_shield", armed))
	must(s.Want("vipd_shield", nil))
	expect("no longer", true)
	must(s.Want("vipd_shield", armed))
	sh(t, "nft flush ruleset; nft add table inet other")
	expect("flushed", true)
	gone, err := s.Look()
	must(err)
	if !gone {
		t.Error("the flush was not seen")
	}
	expect("put back", false)
	if gone, err = s.Look(); gone || err != nil {
		t.Errorf("a second look: %v, %v", gone, err)
	}
	for _, harm := range []string{"flush ruleset; add table inet other", "flush table ip6 vipd_shield", "delete table ip vipd_shield"} {
		sh(t, "nft '"+harm+"'")
		must(s.Want("vipd_shield", nil))
		if _, err = s.Look(); err != nil {
			t.Errorf("%s: %v", harm, err)
		}
		must(s.Want("vipd_shield", armed))
		expect(harm, false)
	}
	// vipd is killed; the next one has another name, or no shield.
	s = shield.New(record, nil)
	must(s.Want("renamed_shield", armed))
	if got := sh(t, "nft list tables"); strings.Contains(got, "vipd_shield") || !strings.Contains(got, "renamed_shield") {
		t.Errorf("after another name:\n%s", got)
	}
	sh(t, "nft add table ip theirs_shield")
	s = shield.New(record, nil)
	must(s.Release())
	expect("released", true)
	must(s.Release())
	sh(t, "nft delete table ip theirs_shield")
	must(s.Want("vipd_shield", armed))
	expect("shielded again", false)
	must(s.Release())
	if got := strings.TrimSpace(sh(t, "nft list ruleset")); got != "table inet other {\n}" {
		t.Errorf("left:\n%s", got)
	}
}

// inside runs f on a thread in a namespace, which ends with it.
func inside(path string, f func() error) (err error) {
	var g sync.WaitGroup
	g.Go(func() {
		runtime.LockOSThread()
		var ns *os.File
		if ns, err = os.Open(path); err != nil {
			return
		}
		defer ns.Close()
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			err = f()
		}
	})
	g.Wait()
	return err
}

// TestNamespace: the rules are where IPVS is.
func TestNamespace(t *testing.T) {
	const ns = "vipd-shield-test"
	sh(t, "ip netns add "+ns)
	t.Cleanup(func() { sh(t, "ip netns del "+ns) })
	s := shield.New(filepath.Join(t.TempDir(), "shield"), func(f func() error) error { return inside("/run/netns/"+ns, f) })
	if err := s.Want("vipd_shield", []netip.Addr{netip.MustParseAddr("10.9.0.100")}); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, "ip netns exec "+ns+" nft list ruleset"); !strings.Contains(got, "10.9.0.100") {
		t.Errorf("in the namespace:\n%s", got)
	}
	if got := sh(t, "nft list tables"); strings.Contains(got, "shield") {
		t.Errorf("outside:\n%s", got)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, "ip netns exec "+ns+" nft list ruleset"); strings.TrimSpace(got) != "" {
		t.Errorf("left:\n%s", got)
	}
}
