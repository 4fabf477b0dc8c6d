package netlink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
	"vipd/ipvs/netlink"
	"vipd/ipvs/reconcile"
)

// start runs a reconciler on the real kernel until stop is called, which leaves the table as a crash would.
func start(t *testing.T, file string) (r *reconcile.Reconciler, stop func()) {
	t.Helper()
	k := netlink.NewKernel(nil)
	r = reconcile.New(k, file, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

// within waits until the condition holds.
func within(t *testing.T, d time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !condition() {
		if time.Since(begin) > d {
			t.Fatalf("not within %v: %s\n%s", d, what, ipvsadm(t, "-S", "-n"))
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(begin)
}

func sorted(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(strings.TrimSpace(lines[i]), " --tun-type ipip")
	}
	return strings.Join(lines, "\n")
}

// TestO37RealKernel: clearing the table, a weight changed by hand, and a foreign service, as case O37 tries it.
func TestO37RealKernel(t *testing.T) {
	open(t)
	want := ipvs.Table{}
	for _, s := range ipvstest.Services() {
		want.AddService(s)
		for n := range 3 {
			want.AddDestination(s.Key, ipvstest.Server(s, n+1, ipvs.DR, n))
		}
	}
	r, stop := start(t, filepath.Join(t.TempDir(), "ipvs"))
	defer stop()
	const foreign = "-A -t 192.0.2.1:80 -s rr"
	ipvsadm(t, strings.Fields(foreign)...)
	ipvsadm(t, "-a", "-t", "192.0.2.1:80", "-r", "192.0.2.2:80", "-g", "-w", "3")
	r.Set(want)
	within(t, 5*time.Second, "first table", func() bool { return r.Status().InSync() })
	right := sorted(ipvsadm(t, "-S", "-n"))
	if !strings.Contains(right, foreign) || strings.Count(right, "-A ") != 9 || strings.Count(right, "-a ") != 25 {
		t.Fatalf("table\n%s", right)
	}
	for _, harm := range []string{
		"-e -t 10.9.0.100:80 -r 10.9.1.2:80 -g -w 77",
		"-D -f 7 -6",
		"-d -u [2001:db8::100]:80 -r [2001:db8::3]:80",
		"-E --sctp-service 10.9.0.100:80 -s rr -p 30",
		"-C",
	} {
		ipvsadm(t, strings.Fields(harm)...)
		if harm == "-C" {
			ipvsadm(t, strings.Fields(foreign)...)
			ipvsadm(t, "-a", "-t", "192.0.2.1:80", "-r", "192.0.2.2:80", "-g", "-w", "3")
		}
		took := within(t, 5*time.Second, "repair after "+harm, func() bool { return sameLines(ipvsadm(t, "-S", "-n"), right) })
		t.Logf("%s: repaired after %v", harm, took)
	}
	ipvsadm(t, "-e", "-t", "192.0.2.1:80", "-r", "192.0.2.2:80", "-g", "-w", "4")
	time.Sleep(3 * time.Second)
	if got := ipvsadm(t, "-S", "-n"); !strings.Contains(got, "-r 192.0.2.2:80 -g -w 4") {
		t.Errorf("the foreign service was changed:\n%s", got)
	}
	if err := r.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := sorted(ipvsadm(t, "-S", "-n")), foreign+"\n-a -t 192.0.2.1:80 -r 192.0.2.2:80 -g -w 4"; got != want {
		t.Errorf("after the release\n%s\nwant\n%s", got, want)
	}
}

// sameLines compares without regard to order, which is the kernel's.
func sameLines(a, b string) bool {
	count := map[string]int{}
	for _, l := range strings.Split(sorted(a), "\n") {
		count[l]++
	}
	for _, l := range strings.Split(sorted(b), "\n") {
		count[l]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// echo is a server that answers what it gets; it lives on this machine's loopback, where IPVS balances too.
func echo(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

type connections []net.Conn

// alive checks that every connection still answers.
func (cs connections) alive(t *testing.T, step string) {
	t.Helper()
	for i, c := range cs {
		text := fmt.Sprintf("%s %d", step, i)
		if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatalf("%s: connection %d: %v", step, i, err)
		}
		if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
			t.Fatalf("%s: connection %d: %q, %v", step, i, got, err)
		}
	}
}

// TestRestartKeepsConnections: an open connection through a service survives the crash of the reconciler, its restart and
// every edit in place that the restart brings; it is still the same entry in the kernel.
func TestRestartKeepsConnections(t *testing.T) {
	open(t)
	for _, a := range []string{"10.9.0.100/32", "10.9.1.1/32", "10.9.1.2/32"} {
		ip(t, "address", "add", a, "dev", "lo")
		t.Cleanup(func() { ip(t, "address", "del", a, "dev", "lo") })
	}
	echo(t, "10.9.1.1:80")
	echo(t, "10.9.1.2:80")
	file := filepath.Join(t.TempDir(), "ipvs")
	s := ipvstest.Services()[0]
	s.Scheduler = "rr"
	want := ipvs.Table{}
	want.AddService(s)
	for n := range 2 {
		want.AddDestination(s.Key, ipvstest.Server(s, n+1, ipvs.NAT, 1))
	}
	r, stop := start(t, file)
	r.Set(want)
	within(t, 5*time.Second, "first table", func() bool { return r.Status().InSync() })

	// rr: one to each server
	conns := connections{dial(t, "10.9.0.100:80"), dial(t, "10.9.0.100:80")}
	conns.alive(t, "before")
	entries := func() string { return ipvsadm(t, "-L", "-n", "-c") }
	if got := entries(); strings.Count(got, "ESTABLISHED") != 2 {
		t.Fatalf("the connections do not go through IPVS:\n%s", got)
	}
	target := func(n int) ipvs.Target {
		return ipvs.Target{Service: s.Key, Destination: ipvstest.Server(s, n, ipvs.NAT, 1).Address}
	}
	status, err := r.Refresh(t.Context())
	if err != nil || status.Kernel.Connections[target(1)].Active != 1 || status.Kernel.Connections[target(2)].Active != 1 {
		t.Fatalf("%v, %+v", err, status.Kernel.Connections)
	}
	stop() // as a crash: nothing is removed

	s.Scheduler, s.Persistence = "wlc", time.Minute
	want.AddService(s)
	want.AddDestination(s.Key, ipvstest.Server(s, 1, ipvs.NAT, 5))
	want.AddDestination(s.Key, ipvstest.Server(s, 2, ipvs.NAT, 0))
	r, stop = start(t, file)
	defer stop()
	r.Set(want)
	within(t, 5*time.Second, "table after the restart", func() bool { return r.Status().InSync() })
	got := ipvsadm(t, "-S", "-n")
	for _, line := range []string{"-A -t 10.9.0.100:80 -s wlc -p 60\n", "-r 10.9.1.1:80 -m -w 5\n", "-r 10.9.1.2:80 -m -w 0\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	conns.alive(t, "after")
	if got := entries(); strings.Count(got, "ESTABLISHED") != 2 {
		t.Errorf("entries after the restart:\n%s", got)
	}
}

// TestModuleUnloaded: with the module out of the way, the error names the remedy; loaded again, the Kernel heals by itself.
func TestModuleUnloaded(t *testing.T) {
	k := netlink.NewKernel(nil)
	if _, err := k.Read(); err != nil {
		t.Fatal(err)
	}
	unload := func() {
		t.Helper()
		// The schedulers depend on it: -r takes those that nobody uses along.
		out, err := exec.Command("sh", "-c", `for m in $(lsmod | sed -n 's/^\(ip_vs_[a-z_]*\) .*/\1/p'); do rmmod $m || exit 1; done; rmmod ip_vs`).CombinedOutput()
		if err != nil {
			t.Fatalf("unloading ip_vs: %v\n%s", err, out)
		}
	}
	unload()
	s := ipvstest.Services()[0]
	add := ipvs.Op{Kind: ipvs.AddService, Service: s}
	// The first call may notice only that its connection leads nowhere; it must not report an empty table.
	if snap, err := k.Read(); err == nil && len(snap.Table) == 0 {
		if out := ipvsadm(t, "-S", "-n"); out != "" {
			t.Errorf("read an empty table, ipvsadm has %s", out)
		}
	}
	var err error
	for range 3 {
		if _, err = k.Read(); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("not healed: %v", err)
	}
	must(t, k.Apply([]ipvs.Op{add}))
	must(t, k.Apply([]ipvs.Op{{Kind: ipvs.DelService, Service: s}, {Kind: ipvs.AddService, Service: s}}))
	ipvsadm(t, "-C")
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	// What asks for no table heals, too: the daemons and facts have a Kernel of their own.
	for name, ask := range map[string]func() error{
		"daemons": func() error { _, err := k.Daemons(); return err },
		"facts":   func() error { _, _, err := k.Facts(); return err },
	} {
		if err := ask(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		unload()
		if err = ask(); err == nil {
			continue // loaded again by that already
		}
		if !errors.Is(err, ipvs.ErrAbsent) {
			t.Errorf("%s without the module: %v", name, err)
		}
		if err = ask(); err != nil {
			t.Errorf("%s with the module loaded again: %v", name, err)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// TestMixedFamilyRemedy: 3.18 and later kernels allow TUN across families; DR is refused with the remedy.
func TestMixedFamilyRemedy(t *testing.T) {
	c := open(t)
	s := ipvstest.Services()[0]
	must(t, c.Apply([]ipvs.Op{{Kind: ipvs.AddService, Service: s}}))
	d := ipvs.Destination{Address: netip.MustParseAddrPort("[2001:db8::9]:80"), Method: ipvs.DR, Weight: 1}
	err := c.Apply([]ipvs.Op{{Kind: ipvs.AddDestination, Service: s, Destination: d}})[0]
	if err == nil || !strings.Contains(err.Error(), "needs the method TUN") {
		t.Errorf("got %v", err)
	}
}
