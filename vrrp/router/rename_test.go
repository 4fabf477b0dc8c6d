package router

import (
	"strings"
	"testing"
	"time"
)

// TestRename: the name is no part of a virtual router. One that is called
// otherwise stays what it is, and the ports, which know only names, learn what is
// wanted of the new one.
func TestRename(t *testing.T) {
	named := func(name string) func(*Instance) { return func(in *Instance) { in.Name = name } }
	as := func(in Instance, name string, vrid uint8) Instance {
		in.Name, in.VRID = name, vrid
		return in
	}
	tests := []struct {
		name          string
		before, after []Instance
		want          string
	}{
		{"a MASTER", []Instance{config(200)}, []Instance{config(200, named("Z"))}, "Z want true\nZ announce master\n"},
		{"a MASTER with a lower priority", []Instance{config(200)}, []Instance{config(150, named("Z"))},
			"Z want true\nZ announce master\nZ advert 150\n"},
		{"a name that another one had", []Instance{config(200), second(200)}, []Instance{config(200, named("VI_2"))},
			"VI_2 advert 0\nVI_2 quiet\nVI_2 want false\nVI_2 MASTER -> INIT: shut down\nVI_2 want true\nVI_2 announce master\n"},
		{"a MASTER whose name a new one gets", []Instance{config(200)}, []Instance{config(200, named("Z")), as(second(100), "VI_1", 53)},
			"VI_1 quiet\nVI_1 want false\nZ want true\nZ announce master\nVI_1 INIT -> BACKUP: listening for a master for 3.609375s\n"},
		{"two MASTERs swap", []Instance{config(200), second(200)},
			[]Instance{as(config(200), "VI_1", 52), as(second(200), "VI_2", 51)}, ""},
		{"a MASTER and a BACKUP swap", []Instance{config(200), second(1)},
			[]Instance{as(config(200), "VI_1", 52), as(second(1), "VI_2", 51)},
			"VI_1 quiet\nVI_1 want false\nVI_2 want true\nVI_2 announce master\nVI_2 advert 1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				better := second(100) // keeps VI_2 of priority 1 in BACKUP
				n.add("d2", "10.9.0.2", better)
				d1 := n.add("d1", "10.9.0.1", tt.before...)
				n.run(10 * time.Second)
				d1.take()
				d1.apply(tt.after...)
				got := ""
				for _, e := range d1.take() {
					got += e.text + "\n"
				}
				if got != tt.want {
					t.Errorf("got:\n%swant:\n%s", got, tt.want)
				}
				d1.apply(tt.after...)
				if got := d1.take(); len(got) != 0 {
					t.Errorf("applied again:\n%s", text(got))
				}
				n.run(2 * time.Second)
				if len(times(d1.take(), tt.after[0].Name+" advert")) == 0 && tt.name != "a MASTER and a BACKUP swap" {
					t.Error("no advert after it")
				}
			})
		})
	}
}

// TestLeave: those that the next Apply gives up say so, and nobody else hears anything. The result of what they track
// counts for their successors.
func TestLeave(t *testing.T) {
	inBubble(t, func(t *testing.T, n *network) {
		tracks := func(in *Instance) { in.TrackScripts = []Track{{Name: "chk"}} }
		d1 := n.add("d1", "10.9.0.1", config(200, tracks), second(200))
		n.run(time.Second)
		d1.router.TrackResult("chk", true)
		n.run(10 * time.Second)
		d1.take()
		after := []Instance{config(200, tracks, func(in *Instance) { in.VRID = 53 }), second(200)}
		if err := d1.router.Leave(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		if got, want := text(d1.take()), "11s VI_1 advert 0\n11s VI_1 quiet\n11s VI_1 want false\n11s VI_1 MASTER -> INIT: shut down\n"; got != want {
			t.Errorf("leaving:\n%swant:\n%s", got, want)
		}
		d1.apply(after...)
		if got, want := text(d1.take()), "11s VI_1 INIT -> BACKUP: listening for a master for 3.21875s\n"; got != want {
			t.Errorf("applied:\n%swant:\n%s", got, want)
		}
		d1.apply(second(200)) // chk is tracked no more, and forgotten
		d1.apply(after...)
		n.run(10 * time.Second)
		if got := text(d1.take()); strings.Contains(got, "VI_1 INIT ->") {
			t.Errorf("it did not wait for the first result:\n%s", got)
		}
	})
}
