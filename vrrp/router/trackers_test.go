package router

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"vipd/vrrp"
)

// What a file's number does with each weight, at the bounds.
func TestTrackFileArithmetic(t *testing.T) {
	for _, tt := range []struct {
		weight  int
		reverse bool
		value   int
		want    int  // weight in force
		fault   bool // FAULT instead
	}{
		{1, false, 0, 0, false},
		{1, false, 30, 30, false},
		{1, false, -253, -253, false},
		{1, false, -254, 0, true},
		{-2, false, 10, -20, false},
		{-2, false, 127, 0, true},
		{-2, true, 10, 20, false},
		{254, false, -1, 0, true},
		{254, false, 1, 254, false},
		{1, false, 1 << 30, 255, false},
		{1<<31 - 1, false, 1<<31 - 1, 255, false},
		{1<<31 - 1, false, -(1<<31 - 1), 0, true},
		{0, false, 0, 0, false},
		{0, false, 1, 0, true},
		{0, false, -1, 0, true},
		{0, true, 0, 0, true},
		{0, true, 3, 0, false},
	} {
		var env vrrp.Env
		new(Router).trackFile(&instance{}, &env, &Track{Name: "f", Weight: tt.weight, Reverse: tt.reverse}, tt.value)
		if env.Weight != tt.want || (len(env.Faults) > 0) != tt.fault {
			t.Errorf("%+v: weight %d, faults %v", tt, env.Weight, env.Faults)
		}
	}
}

func TestTrackFile(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		track := func(in *Instance) { in.TrackFiles = []Track{{Name: "load", Weight: -2}} }
		d1 := n.add("d1", "10.9.0.1", config(200, track))
		n.run(time.Minute)
		d1.wantState(vrrp.Init, "waiting for the first value of file load")
		d1.router.TrackFile("load", 10)
		n.run(5 * time.Second)
		n.wantOwners("d1")
		if st := d1.status("VI_1"); st.Status.EffectivePriority != 180 || st.Weights != "file load holds 10 (-20)" {
			t.Errorf("effective priority %d, %q", st.Status.EffectivePriority, st.Weights)
		}
		d1.router.TrackFile("load", 127)
		synctest.Wait()
		d1.wantState(vrrp.Fault, "file load holds 127, with its weight -254")
		d1.router.TrackFile("load", 120) // as low as it gets without FAULT
		n.run(5 * time.Second)
		n.wantOwners("d1")
		if st := d1.status("VI_1"); st.Status.EffectivePriority != 1 {
			t.Errorf("effective priority %d, want 1", st.Status.EffectivePriority)
		}
		d1.apply(config(199, track)) // the result survives a reload
		d1.wantState(vrrp.Master, "")
		d1.router.TrackFile("load", -200)
		synctest.Wait()
		if st := d1.status("VI_1"); st.Status.EffectivePriority != 254 {
			t.Errorf("effective priority %d, want 254", st.Status.EffectivePriority)
		}
		d1.apply(config(199))
		d1.router.TrackFile("load", 127) // of a file that nobody tracks
		d1.apply(config(199, track))
		d1.wantState(vrrp.Master, "")
	})
}

func TestTrackProcess(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		track := func(in *Instance) { in.TrackProcesses = []Track{{Name: "web"}, {Name: "mail", Weight: -30}} }
		d1 := n.add("d1", "10.9.0.1", config(200, track))
		n.run(time.Minute)
		d1.wantState(vrrp.Init, "waiting for the first count of process web")
		d1.router.TrackProcess("web", true)
		d1.router.TrackProcess("mail", false)
		d1.router.TrackResult("web", false) // a script of the same name is another tracker
		n.run(5 * time.Second)
		n.wantOwners("d1")
		if st := d1.status("VI_1"); st.Status.EffectivePriority != 170 {
			t.Errorf("effective priority %d, want 170", st.Status.EffectivePriority)
		}
		d1.router.TrackProcess("web", false)
		synctest.Wait()
		d1.wantState(vrrp.Fault, "process web does not run as it should")
	})
}

// TestTrackersProperty: whatever trackers say, the weights are those of a plain
// reading of the manual, an instance is at fault exactly when one of them says so,
// and the effective priority stays within 1..254.
func TestTrackersProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(Ports{})
		var in instance
		weight, fault, pending := 0, false, false
		plain := func(w int, reverse, ok bool) {
			if w == 0 {
				fault = fault || ok == reverse
			} else if w > 0 == ok {
				if reverse {
					w = -w
				}
				weight += w
			}
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "scripts") {
			tr := Track{Name: fmt.Sprint(i), Weight: rapid.IntRange(-253, 253).Draw(t, "weight"), Reverse: rapid.Bool().Draw(t, "reverse")}
			in.cfg.TrackScripts = append(in.cfg.TrackScripts, tr)
			in.cfg.TrackProcesses = append(in.cfg.TrackProcesses, tr)
			for _, kind := range []trackerKind{trackScript, trackProcess} {
				if !rapid.Bool().Draw(t, "known") {
					pending = pending || tr.Weight == 0
					continue
				}
				ok := rapid.Bool().Draw(t, "ok")
				r.results[tracker{kind, tr.Name}] = verdict(ok)
				plain(tr.Weight, tr.Reverse, ok)
			}
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "files") {
			tr := Track{Name: fmt.Sprint(i), Weight: rapid.OneOf(rapid.IntRange(-3, 3), rapid.IntRange(-1<<31+1, 1<<31-1)).Draw(t, "weight"), Reverse: rapid.Bool().Draw(t, "reverse")}
			in.cfg.TrackFiles = append(in.cfg.TrackFiles, tr)
			if !rapid.Bool().Draw(t, "known") {
				pending = true
				continue
			}
			value := rapid.OneOf(rapid.IntRange(-300, 300), rapid.IntRange(-1<<31+1, 1<<31-1)).Draw(t, "value")
			r.results[tracker{trackFile, tr.Name}] = value
			product := value * tr.Weight
			if tr.Reverse {
				product = -product
			}
			switch {
			case tr.Weight == 0:
				fault = fault || (value == 0) == tr.Reverse
			case product <= -254:
				fault = true
			default:
				weight += min(product, 255)
			}
		}
		var env vrrp.Env
		r.track(&in, &env)
		if env.Weight != weight || (len(env.Faults) > 0) != fault || (env.Pending != "") != pending {
			t.Fatalf("weight %d, faults %q, pending %q; want %d, %v, %v", env.Weight, env.Faults, env.Pending, weight, fault, pending)
		}
		priority := uint8(rapid.IntRange(1, 254).Draw(t, "priority"))
		if got := vrrp.EffectivePriority(priority, env.Weight); got < 1 || got > 254 {
			t.Fatalf("effective priority %d", got)
		}
	})
}
