package interop

import "testing"

func TestTry(t *testing.T) {
	for _, s := range []site{{version: 3, order: "vk"}, {version: 3, order: "kv"}, {version: 2, order: "vk"}} {
		t.Run(s.name(), func(t *testing.T) {
			t.Parallel()
			r := s.run(t)
			for _, sp := range r.spans {
				t.Logf("== %s %v", sp.label(), sp.to.Sub(sp.from))
				for _, l := range sp.lines {
					t.Logf("%d: %s", l.director, l.text)
				}
			}
		})
	}
}
