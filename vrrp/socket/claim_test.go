package socket

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// TestHearClaims: a machine that has one of the addresses is heard, on any of its
// interfaces, as the kernel answers for all of them; one that has others is not, nor is
// this one.
func TestHearClaims(t *testing.T) {
	asked := []netip.Addr{netip.MustParseAddr("10.9.0.100"), netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.101")}
	for name, c := range map[string]struct {
		add  string // to the other machine's loopback interface
		want []string
	}{
		"nobody":   {"10.9.0.102/32", nil},
		"one":      {"10.9.0.100/32", []string{"10.9.0.100 02:00:00:00:00:02"}},
		"the last": {"10.9.0.101/32", []string{"10.9.0.101 02:00:00:00:00:02"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t, 1)
			lo, err := w.far.nl.LinkByName("lo")
			must(t, err)
			addr, err := netlink.ParseAddr(c.add)
			must(t, err)
			must(t, w.far.nl.AddrAdd(lo, addr))
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			var heard []Claim
			w.near.do(t, func() (err error) {
				heard, err = HearClaims(ctx, w.index, [6]byte(mac(1)), asked)
				return err
			})
			var got []string
			for _, h := range heard {
				got = append(got, h.Address.String()+" "+h.MAC.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("heard %q, want %q", got, c.want)
			}
		})
	}
}

// TestHearClaimsLimits: more addresses than the filter has room for, and an interface
// that is not there.
func TestHearClaimsLimits(t *testing.T) {
	w := newWire(t, 1)
	var many []netip.Addr
	for a := netip.MustParseAddr("10.10.0.0"); len(many) < 3*MaxClaims; a = a.Next() {
		many = append(many, a)
	}
	w.near.do(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if heard, err := HearClaims(ctx, w.index, [6]byte(mac(1)), many); err != nil || heard != nil {
			t.Errorf("heard %v (%v)", heard, err)
		}
		if _, err := HearClaims(t.Context(), w.index+1000, [6]byte(mac(1)), many); err == nil {
			t.Error("it asks on an interface that does not exist")
		}
		return nil
	})
}
