package cases

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// vipd is started on a director whose keepalived was not stopped.
//
// Claim: it says so, and nothing of the kind where keepalived is on the other director.
func TestStartBesideKeepalived(t *testing.T) {
	t.Parallel()
	l := lab.New(t, "d1", "d2")
	i := lab.Instance{Priority: 100, VIPs: []netip.Addr{lab.VIP()}}
	l.Node("d1").Keepalived(lab.KeepalivedConf("", i))
	l.WaitOwner(lab.VIP(), 10*time.Second, "d1")
	other := l.Node("d2").Vipd(lab.VipdConf("", i))
	other.WaitState("VI_1", "BACKUP", 10*time.Second)
	if strings.Contains(other.Log(), "another program of this machine speaks VRRP") {
		t.Errorf("on the other director:\n%s", other.Log())
	}
	l.Node("d1").Vipd(lab.VipdConf("", i)).WaitLog("WARN another program of this machine speaks VRRP already", 10*time.Second)
}
