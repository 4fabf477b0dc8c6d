package nft

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSupport: what cannot be for want of rights is told from what the kernel has not.
func TestSupport(t *testing.T) {
	for err, c := range map[unix.Errno]struct {
		unsupported bool
		text        string
	}{
		unix.EOPNOTSUPP: {true, "no nftables"}, unix.EPROTONOSUPPORT: {true, "no nftables"},
		unix.EPERM: {false, "CAP_NET_ADMIN"}, unix.EACCES: {false, "CAP_NET_ADMIN"}, unix.EBUSY: {false, "busy"},
	} {
		got := Support(fmt.Errorf("netlink receive: %w", err))
		if errors.Is(got, ErrUnsupported) != c.unsupported || !errors.Is(got, err) || !strings.Contains(got.Error(), c.text) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
