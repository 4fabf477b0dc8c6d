package host_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"vipd/vrrp/host"
	"vipd/vrrp/host/hosttest"
)

// walk is a manager, its kernel and a model of what should be in it.
type walk struct {
	*rig
	sets   map[string][]string
	wanted map[string]bool
	hand   map[string]string // addresses of others: prefix to interface
	either map[string]bool   // virtual addresses once added by hand: taken over, or not when it is the only address
}

var (
	walkInstances = []string{"A", "B", "C"}
	walkVIPs      = []string{
		"10.7.0.1/24", "10.7.0.2/24", "10.7.0.3/24", "10.9.0.100/32", "10.9.0.101/24", "2001:db8::1/128", "2001:db8::2/64",
	}
	walkForeign = []string{"10.7.0.200/24", "10.9.0.201/24", "10.9.0.202/32", "2001:db8::99/64"}
	walkErrnos  = []unix.Errno{unix.ENOBUFS, unix.EPERM, unix.EINVAL, unix.ENOMEM}
)

// TestRandomWalk: after any history of wishes, reloads, interference and errors, the kernel holds exactly what is
// wanted, and every address of others.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) { // a fatal step ends this run
			w := &walk{rig: newRig(t), sets: map[string][]string{}, wanted: map[string]bool{}, hand: map[string]string{}, either: map[string]bool{}}
			w.run()
			defer w.stop()
			var steps []string
			for range rapid.IntRange(1, 30).Draw(rt, "length") {
				steps = append(steps, w.step(rt))
				if rapid.Bool().Draw(rt, "pause") {
					time.Sleep(time.Duration(rapid.IntRange(0, 100).Draw(rt, "ms")) * time.Millisecond)
				}
			}
			w.check(rt, steps)
		})
	})
}

func (w *walk) step(rt *rapid.T) string {
	k := w.k
	pick := func(name string, of []string) string { return rapid.SampledFrom(of).Draw(rt, name) }
	dev := pick("dev", []string{"eth0", "eth1"})
	switch pick("step", []string{"want", "want", "want", "configure", "delete", "foreign", "down", "carrier", "recreate", "flush", "fault", "promote", "adopt"}) {
	case "want":
		in := pick("instance", walkInstances)
		w.wanted[in] = rapid.Bool().Draw(rt, "wanted")
		w.Want(in, w.wanted[in])
		return fmt.Sprint("want ", in, w.wanted[in])
	case "configure":
		w.configure(rt)
		return fmt.Sprint("configure ", w.sets)
	case "delete":
		v := pick("vip", walkVIPs)
		_ = k.Del("eth0", pfx(v))
		w.forgetLost()
		return "delete " + v
	case "adopt": // somebody adds what an instance that is wanted should have
		v := pick("vip", walkVIPs)
		if w.wants(v) {
			_ = k.Add("eth0", foreign(v))
			w.either[v+" eth0"] = true
			return "add " + v + " by hand"
		}
	case "foreign":
		f := pick("foreign", walkForeign)
		if k.Add(dev, foreign(f)) == nil {
			w.hand[f+" "+dev] = f
			return "foreign " + f + " on " + dev
		}
	case "down", "carrier":
		up := rapid.Bool().Draw(rt, "up")
		_ = k.SetLink(dev, up, rapid.Bool().Draw(rt, "carrier"))
		w.forgetLost()
		return fmt.Sprint("link ", dev, up)
	case "recreate":
		k.RemoveLink(dev)
		time.Sleep(time.Duration(rapid.IntRange(0, 10).Draw(rt, "ms")) * time.Millisecond)
		k.NewLink(dev)
		w.forgetLost()
		return "re-create " + dev
	case "flush":
		for _, v := range append(slices.Clone(walkVIPs), "10.9.0.11/24") {
			_ = k.Del("eth0", pfx(v))
		}
		w.forgetLost()
		return "flush"
	case "fault":
		op := hosttest.Op(pick("op", []string{string(hosttest.OpAdd), string(hosttest.OpDel), string(hosttest.OpState)}))
		n := rapid.IntRange(1, 4).Draw(rt, "n")
		k.Fail(op, anyOr(pick("of", append([]string{""}, walkVIPs...))), n, rapid.SampledFrom(walkErrnos).Draw(rt, "errno"))
		return fmt.Sprint("fail ", op, n)
	case "promote":
		must(w.t, k.SetPromote(dev, rapid.Bool().Draw(rt, "promote")))
		return "promote " + dev
	}
	return "nothing"
}

func (w *walk) configure(rt *rapid.T) {
	var sets []host.Set
	next := map[string][]string{}
	for _, in := range walkInstances {
		if !rapid.Bool().Draw(rt, "has"+in) {
			if w.sets[in] != nil {
				w.wanted[in] = false // an instance that went must be wanted anew
			}
			continue
		}
		vips := slices.DeleteFunc(slices.Clone(walkVIPs), func(string) bool { return rapid.Bool().Draw(rt, "without") })
		next[in] = append([]string{}, vips...)
		sets = append(sets, set(in, vips...))
	}
	w.sets = next
	w.Configure(sets)
}

func (w *walk) wants(v string) bool {
	for in, vips := range w.sets {
		if w.wanted[in] && slices.Contains(vips, v) {
			return true
		}
	}
	return false
}

// forgetLost forgets addresses of others that others took away, knowingly or together with a primary address.
func (w *walk) forgetLost() {
	for id, f := range w.hand {
		if !w.k.Has(strings.TrimPrefix(id, f+" "), pfx(f)) {
			delete(w.hand, id)
		}
	}
}

// check mends the machine, starts every instance's term anew and compares.
func (w *walk) check(rt *rapid.T, steps []string) {
	w.k.Heal()
	time.Sleep(3 * time.Second) // the longest pause after an error
	for _, dev := range []string{"eth0", "eth1"} {
		must(w.t, w.k.SetLink(dev, true, true))
	}
	_ = w.k.Add("eth0", foreign("10.9.0.11/24"))
	_ = w.k.Add("eth1", foreign("192.0.2.1/24"))
	w.settle()
	for in := range w.sets { // after a fight
		if w.wanted[in] {
			w.Want(in, false)
			w.Want(in, true)
		}
	}
	w.settle()
	want := map[string]bool{"10.9.0.11/24 eth0": true, "192.0.2.1/24 eth1": true}
	for id := range w.hand {
		want[id] = true
	}
	for _, v := range walkVIPs {
		if w.wants(v) {
			want[v+" eth0"] = true
		}
	}
	s, err := w.k.State()
	must(w.t, err)
	for dev, l := range s.Links {
		for _, a := range l.Addrs {
			id := a.Prefix.String() + " " + dev
			if !want[id] && !w.either[id] && !a.Prefix.Addr().IsLinkLocalUnicast() {
				rt.Errorf("%s is there and should not be", id)
			}
			delete(want, id)
		}
	}
	for id := range want {
		rt.Errorf("%s is missing", id)
	}
	for _, st := range w.Status() {
		for _, a := range st.Addresses {
			if a.Present != w.k.Has(a.Dev, a.Address.Prefix) {
				rt.Errorf("status of %s says present: %v", a.Address.Prefix, a.Present)
			}
		}
	}
	if rt.Failed() {
		rt.Logf("steps:\n%s\nkernel:\n%s", strings.Join(steps, "\n"), w.k)
	}
}

func anyOr(s string) netip.Prefix {
	if s == "" {
		return netip.Prefix{}
	}
	return pfx(s)
}
