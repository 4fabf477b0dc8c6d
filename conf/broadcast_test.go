package conf

import (
	"fmt"
	"testing"
)

// The length that "brd +" counts with may be told after it, by peer, and is then of the peer's network, as with ip(8).
func TestBroadcastOfPeer(t *testing.T) {
	for _, entry := range []string{
		`"10.9.0.1 peer 10.9.5.2/24 brd +"`,
		`"10.9.0.1 brd + peer 10.9.5.2/24"`,
		`{ address = "10.9.0.1", brd = "+", peer = "10.9.5.2/24" }`,
	} {
		c, diags := loadText([]byte(fmt.Sprintf("[vrrp_instance.A]\ninterface = \"eth0\"\nvirtual_router_id = 51\nvirtual_ipaddress = [%s]\n", entry)))
		if c == nil {
			t.Errorf("%s: %s", entry, diags.Text())
			continue
		}
		if v := c.Instances[0].VIPs[0]; v.Broadcast.String() != "10.9.5.255" || v.Prefix.Bits() != 24 {
			t.Errorf("%s has the broadcast address %v and length %d, want 10.9.5.255 and 24", entry, v.Broadcast, v.Prefix.Bits())
		}
	}
}
