package router

import (
	"strings"
	"testing"
	"time"

	"vipd/vrrp/packet"
)

// TestOtherChecksumForm: a peer whose checksums over IPv4 are of the other form is
// listened to, and named once a minute. A peer of the same form, and IPv6, where
// there is one form only, are not.
func TestOtherChecksumForm(t *testing.T) {
	plain := func(in *Instance) { in.Form = packet.FormPlain }
	two := func(in *Instance) { in.Version = 2 }
	tests := []struct {
		name  string
		d1    func(*Instance)
		notes int // within 2 minutes and a half
		text  string
	}{
		{"without the pseudo-header", plain, 3, "10.9.0.1 sends checksums without the IPv4 pseudo-header, we send them with: it may refuse our adverts; set v3_checksum_as_v2 = true here"},
		{"with it", func(*Instance) {}, 0, ""},
		{"version 2", func(in *Instance) { two(in); plain(in) }, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, n *network) {
				n.add("d1", "10.9.0.1", config(200, tt.d1))
				d2 := n.add("d2", "10.9.0.2", config(100, func(in *Instance) {
					if tt.name == "version 2" {
						two(in)
					}
				}))
				n.run(150 * time.Second)
				n.wantOwners("d1")
				d2.mu.Lock()
				defer d2.mu.Unlock()
				if len(d2.notes) != tt.notes {
					t.Fatalf("%d notes, want %d: %v", len(d2.notes), tt.notes, d2.notes)
				}
				for _, note := range d2.notes {
					if note.Instance != "VI_1" || !strings.HasPrefix(note.Text, tt.text) {
						t.Errorf("note %+v, want it to begin with %q", note, tt.text)
					}
				}
			})
		})
	}
}
