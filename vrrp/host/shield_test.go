package host_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"vipd/vrrp/firewall"
	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// watchedKernel is a kernel and a shield that look at each other: an address of which packets must be refused is
// refused before it is added, and until it is gone.
type watchedKernel struct {
	*hosttest.Kernel
	mu      sync.Mutex // guards what follows
	refused []string
	calls   []string
	err     error
	secret  func(netip.Addr) bool // whose packets must be refused
	wrong   []string
}

func (k *watchedKernel) Change(changes []host.Change) []error {
	k.mu.Lock()
	for _, c := range changes {
		if ip := c.Addr.Prefix.Addr(); !c.Remove && k.secret(ip) && !slices.ContainsFunc(k.refused, func(r string) bool { return strings.HasPrefix(r+" ", ip.String()+" ") }) {
			k.wrong = append(k.wrong, fmt.Sprintf("%v is added although packets to it are accepted", ip))
		}
	}
	k.mu.Unlock()
	return k.Kernel.Change(changes)
}

// Refuse implements host.Shield.
func (k *watchedKernel) Refuse(list []firewall.Address) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := []string{}
	for _, a := range list {
		now = append(now, a.String())
	}
	slices.Sort(now)
	if k.err != nil {
		return k.err
	}
	for _, a := range k.refused {
		ip, _, _ := strings.Cut(a, " ")
		if !slices.Contains(now, a) && k.secret(netip.MustParseAddr(ip)) && strings.Contains(k.Kernel.String(), " "+ip+"/") {
			k.wrong = append(k.wrong, a+" is still there but not refused any more")
		}
	}
	k.refused = now
	k.calls = append(k.calls, strings.Join(now, " "))
	return nil
}

func (k *watchedKernel) fail(err error) { k.mu.Lock(); defer k.mu.Unlock(); k.err = err }

func (k *watchedKernel) state() (refused string, calls, wrong []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.refused, " "), slices.Clone(k.calls), slices.Clone(k.wrong)
}

// shieldRig is a rig with a shield.
type shieldRig struct {
	*rig
	w *watchedKernel
}

func newShieldRig(t *testing.T, secret func(netip.Addr) bool) *shieldRig {
	t.Helper()
	r := newRig(t)
	w := &watchedKernel{Kernel: r.k, secret: secret}
	r.Manager = host.NewManager(w, w, r.file, r.j.callbacks(), nil)
	r.SetShield(w)
	m := r.Manager
	r.k.OnChange(func() {
		if s, err := r.k.State(); err == nil {
			m.State(s)
		}
	})
	r.run()
	return &shieldRig{r, w}
}

func all(netip.Addr) bool { return true }

func refusing(s host.Set) host.Set { s.NoAccept = true; return s }

func TestRefusedWhileThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShieldRig(t, all)
		vips := []string{"10.9.0.100/32", "10.9.0.101/24", "2001:db8::1/128", "fe80::1/64"}
		r.Configure([]host.Set{refusing(set("A", vips...))})
		r.settle()
		if refused, calls, _ := r.w.state(); refused != "" || calls != nil {
			t.Errorf("as BACKUP it refuses %q after %q", refused, calls)
		}
		r.Want("A", true)
		r.settle()
		refused, calls, _ := r.w.state()
		if want := `10.9.0.100 10.9.0.101 2001:db8::1 fe80::1 . "eth0"`; refused != want || len(calls) != 1 {
			t.Errorf("as MASTER it refuses %s after %d calls, want %s after one", refused, len(calls), want)
		}
		must(t, r.k.Del("eth0", pfx("10.9.0.100/32")))
		r.settle() // put back; watchedKernel looks
		r.Want("A", false)
		r.settle()
		if refused, _, wrong := r.w.state(); refused != "" || wrong != nil || r.addresses() != baseOnly {
			t.Errorf("given up, it refuses %q; %q; there are\n%s", refused, wrong, r.addresses())
		}
		r.stop()
	})
}

func TestReloadTogglesRefusalInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShieldRig(t, all)
		s := set("A", "10.9.0.100/32")
		r.w.secret = func(netip.Addr) bool { return false }
		r.Configure([]host.Set{s})
		r.Want("A", true)
		r.settle()
		for _, on := range []bool{true, false, true} {
			r.j.take()
			r.k.Writes()
			s.NoAccept = on
			r.Configure([]host.Set{s})
			r.settle()
			if refused, _, _ := r.w.state(); (refused == "10.9.0.100") != on {
				t.Errorf("no_accept %v: it refuses %q", on, refused)
			}
			if w, told := r.k.Writes(), r.j.take(); w != nil || told != "" {
				t.Errorf("no_accept %v touches addresses: %q, %q", on, w, told)
			}
		}
		r.stop()
	})
}

func TestNothingIsAddedWithoutShield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShieldRig(t, all)
		r.w.secret = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.9.0.100") }
		r.w.fail(errors.New("no nftables"))
		r.Configure([]host.Set{refusing(set("A", "10.9.0.100/32")), set("B", "10.9.0.101/32")})
		r.Want("A", true)
		r.Want("B", true)
		r.settle()
		time.Sleep(5 * time.Second)
		if got, want := r.addresses(), "ip addr add 10.9.0.101/32 dev eth0 proto 112\n"; !strings.Contains(got, want) || strings.Contains(got, "10.9.0.100") {
			t.Errorf("without a shield there are\n%s", got)
		}
		r.w.fail(nil)
		time.Sleep(3 * time.Second)
		if got := r.addresses(); !strings.Contains(got, "10.9.0.100/32") {
			t.Errorf("with a shield at last there are\n%s", got)
		}
		if _, _, wrong := r.w.state(); wrong != nil {
			t.Error(wrong)
		}
		r.w.fail(errors.New("no nftables"))
		r.Want("A", false)
		r.settle()
		if got := r.addresses(); strings.Contains(got, "10.9.0.100") {
			t.Errorf("a broken shield keeps addresses:\n%s", got)
		}
		if err := r.Release(); err == nil || !strings.Contains(err.Error(), "nftables rules (no nftables)") {
			t.Errorf("the release says %v", err)
		}
		r.stop()
	})
}

// A shield that never worked keeps nobody from stopping.
func TestReleaseWithoutShield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShieldRig(t, all)
		r.w.fail(errors.New("no nftables"))
		r.Configure([]host.Set{refusing(set("A", "10.9.0.100/32"))})
		r.Want("A", true)
		r.settle()
		began := time.Now()
		must(t, r.Release())
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("the release took %v", d)
		}
		r.stop()
	})
}

// Whatever is asked and whatever fails, no address is there for a moment without being refused.
func TestNeverAccepted(t *testing.T) {
	vips := []string{"10.7.0.1/24", "10.7.0.2/24", "10.9.0.100/32", "2001:db8::1/128"}
	secret := []string{"10.7.0.1", "10.9.0.100", "2001:db8::1"}
	rapid.Check(t, func(rt *rapid.T) {
		type step struct {
			kind, pause, vip int
			on               bool
			a, b             []string
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			some := func(of []string) []string {
				return slices.DeleteFunc(slices.Clone(of), func(string) bool { return rapid.Bool().Draw(rt, "without") })
			}
			a := some([]string{vips[0], vips[2], vips[3]})
			return step{rapid.IntRange(0, 6).Draw(rt, "kind"), rapid.SampledFrom([]int{0, 0, 1, 70}).Draw(rt, "pause"), rapid.IntRange(0, 3).Draw(rt, "vip"), rapid.Bool().Draw(rt, "on"), a, some([]string{vips[1]})}
		}), 1, 25).Draw(rt, "steps")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			r := newShieldRig(t, func(a netip.Addr) bool { return slices.Contains(secret, a.String()) })
			var a []string
			wanted := false
			for _, s := range steps {
				switch s.kind {
				case 0, 1:
					wanted = s.on
					r.Want("A", s.on)
				case 2:
					r.Want("B", s.on)
				case 3:
					a = s.a
					r.Configure([]host.Set{refusing(set("A", s.a...)), set("B", s.b...)})
				case 4:
					_ = r.k.Del("eth0", pfx(vips[s.vip]))
				case 5:
					var err error
					if s.on {
						err = errors.New("no nftables")
					}
					r.w.fail(err)
				case 6:
					r.k.Fail(map[bool]hosttest.Op{true: hosttest.OpAdd, false: hosttest.OpDel}[s.on], netip.Prefix{}, 2, unix.ENOBUFS)
				}
				time.Sleep(time.Duration(s.pause) * time.Millisecond)
			}
			r.w.fail(nil)
			r.k.Heal()
			time.Sleep(5 * time.Second)
			var refused string
			refused, _, wrong = r.w.state()
			var want []string
			for _, v := range a {
				if wanted {
					want = append(want, pfx(v).Addr().String())
				}
			}
			slices.Sort(want)
			if refused != strings.Join(want, " ") {
				wrong = append(wrong, fmt.Sprintf("in the end it refuses %q, want %q", refused, want))
			}
			r.stop()
		})
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

// An address that a reload takes out is refused until the kernel lets go of it.
func TestGoingAddressStaysRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newShieldRig(t, all)
		r.Configure([]host.Set{refusing(set("A", "10.9.0.100/32", "10.9.0.101/32"))})
		r.Want("A", true)
		r.settle()
		r.k.Fail(hosttest.OpDel, pfx("10.9.0.100/32"), 3, unix.ENOBUFS)
		r.Configure([]host.Set{refusing(set("A", "10.9.0.101/32", "10.9.0.102/32"))})
		r.settle()
		if refused, _, _ := r.w.state(); refused != "10.9.0.100 10.9.0.101 10.9.0.102" {
			t.Errorf("while one cannot be removed it refuses %q", refused)
		}
		time.Sleep(3 * time.Second)
		if refused, _, wrong := r.w.state(); refused != "10.9.0.101 10.9.0.102" || wrong != nil {
			t.Errorf("in the end it refuses %q; %q", refused, wrong)
		}
		r.stop()
	})
}
