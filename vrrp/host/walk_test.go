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

var (
	walkInstances = []string{"A", "B", "C"}
	walkVIPs      = []string{
		"10.7.0.1/24", "10.7.0.2/24", "10.7.0.3/24", "10.9.0.100/32", "10.9.0.101/24", "2001:db8::1/128", "2001:db8::2/64",
	}
	walkForeign = []string{"10.7.0.200/24", "10.9.0.201/24", "10.9.0.202/32", "2001:db8::99/64"}
	walkKinds   = []string{
		"want", "want", "want", "configure", "configure", "delete", "foreign", "link", "recreate", "flush", "fault", "promote", "adopt",
	}
)

// move is one step of a history; the fields that its kind does not need are ignored.
type move struct {
	kind, instance, dev, vip, foreign string
	on, carrier                       bool
	pause                             int // ms afterwards
	op                                hosttest.Op
	times                             int
	errno                             unix.Errno
	sets                              map[string][]string
}

func drawMove(rt *rapid.T) move {
	subset := rapid.Custom(func(rt *rapid.T) []string {
		return slices.DeleteFunc(slices.Clone(walkVIPs), func(v string) bool { return rapid.Bool().Draw(rt, "without "+v) })
	})
	m := move{kind: rapid.SampledFrom(walkKinds).Draw(rt, "kind")}
	m.dev = rapid.SampledFrom([]string{"eth0", "eth0", "eth1"}).Draw(rt, "dev")
	m.vip = rapid.SampledFrom(walkVIPs).Draw(rt, "vip")
	m.on = rapid.Bool().Draw(rt, "on")
	m.pause = rapid.SampledFrom([]int{0, 0, 1, 30, 100}).Draw(rt, "pause")
	switch m.kind {
	case "want":
		m.instance = rapid.SampledFrom(walkInstances).Draw(rt, "instance")
	case "configure":
		m.sets = rapid.MapOf(rapid.SampledFrom(walkInstances), subset).Draw(rt, "sets")
	case "foreign":
		m.foreign = rapid.SampledFrom(walkForeign).Draw(rt, "foreign")
	case "link":
		m.carrier = rapid.Bool().Draw(rt, "carrier")
	case "fault":
		m.op = rapid.SampledFrom([]hosttest.Op{hosttest.OpAdd, hosttest.OpDel, hosttest.OpState}).Draw(rt, "op")
		m.times = rapid.IntRange(1, 4).Draw(rt, "times")
		m.errno = rapid.SampledFrom([]unix.Errno{unix.ENOBUFS, unix.EPERM, unix.EINVAL, unix.ENOMEM}).Draw(rt, "errno")
	}
	return m
}

// walk is a manager, its kernel and a model of what should be in it.
type walk struct {
	*rig
	sets   map[string][]string
	wanted map[string]bool
	hand   map[string]string // addresses of others: "prefix dev" to prefix
	either map[string]bool   // may be there or not, such as virtual addresses once added by hand: taken over or not
}

// TestRandomWalk: after any history of wishes, reloads, interference and errors, the kernel holds exactly what is
// wanted, and every address of others.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(rapid.Custom(drawMove), 1, 40).Draw(rt, "history")
		var wrong []string
		synctest.Test(t, func(t *testing.T) {
			w := &walk{rig: newRig(t), sets: map[string][]string{}, wanted: map[string]bool{}, hand: map[string]string{}, either: map[string]bool{}}
			w.run()
			for _, m := range history {
				w.step(m)
				time.Sleep(time.Duration(m.pause) * time.Millisecond)
			}
			w.mend()
			wrong = w.check()
			w.stop()
		})
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

func (w *walk) step(m move) {
	switch k := w.k; m.kind {
	case "want":
		w.wanted[m.instance] = m.on
		w.Want(m.instance, m.on)
	case "configure":
		w.configure(m.sets)
	case "delete":
		_ = k.Del("eth0", pfx(m.vip))
	case "adopt": // somebody adds what an instance that is wanted should have
		if w.wants(m.vip) {
			_ = k.Add("eth0", foreign(m.vip))
			w.either[m.vip+" eth0"] = true
		}
	case "foreign":
		if k.Add(m.dev, foreign(m.foreign)) == nil {
			w.hand[m.foreign+" "+m.dev] = m.foreign
		}
	case "link":
		must(w.t, k.SetLink(m.dev, m.on, m.carrier))
	case "recreate":
		k.RemoveLink(m.dev)
		k.NewLink(m.dev)
	case "flush":
		for _, v := range append(slices.Clone(walkVIPs), "10.9.0.11/24") {
			_ = k.Del("eth0", pfx(v))
		}
	case "fault":
		of := netip.Prefix{}
		if m.on {
			of = pfx(m.vip)
		}
		k.Fail(m.op, of, m.times, m.errno)
	case "promote":
		must(w.t, k.SetPromote(m.dev, m.on))
	}
	if slices.Contains([]string{"delete", "link", "recreate", "flush"}, m.kind) {
		w.forgetLost()
	}
}

func (w *walk) configure(sets map[string][]string) {
	var all []host.Set
	for _, in := range walkInstances {
		if vips, ok := sets[in]; ok {
			all = append(all, set(in, vips...))
		} else if _, had := w.sets[in]; had {
			w.wanted[in] = false // an instance that went must be wanted anew
		}
	}
	w.sets = sets
	w.Configure(all)
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
			w.either[id] = true // gone, or to be put back because one of ours took it along this very moment
		}
	}
}

// mend ends all trouble and starts every instance's term anew, as after a fight.
func (w *walk) mend() {
	w.k.Heal()
	time.Sleep(3 * time.Second) // the longest pause after an error
	for dev, own := range map[string]string{"eth0": "10.9.0.11/24", "eth1": "192.0.2.1/24"} {
		must(w.t, w.k.SetLink(dev, true, true))
		_ = w.k.Add(dev, foreign(own))
	}
	w.settle()
	for in := range w.sets {
		if w.wanted[in] {
			w.Want(in, false)
			w.Want(in, true)
		}
	}
	w.settle()
}

// check returns how the kernel and the status differ from the model.
func (w *walk) check() (wrong []string) {
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
				wrong = append(wrong, id+" is there and should not be")
			}
			delete(want, id)
		}
	}
	for id := range want {
		wrong = append(wrong, id+" is missing")
	}
	for _, st := range w.Status() {
		for _, a := range st.Addresses {
			if a.Present != w.k.Has(a.Dev, a.Address.Prefix) {
				wrong = append(wrong, fmt.Sprintf("the status of %s says present: %v", a.Address.Prefix, a.Present))
			}
		}
	}
	if len(wrong) > 0 {
		wrong = append(wrong, "kernel:", w.k.String())
	}
	return wrong
}
