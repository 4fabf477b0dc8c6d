package lab

import "strings"

// MACOn is the address of the node's interface on bridge br0 or br1.
func (n *Node) MACOn(i int) string { return n.mac(i) }

// FDBOn is FDB for either bridge.
func (l *Lab) FDBOn(i int, mac string) string {
	l.t.Helper()
	var entries []struct {
		MAC   string `json:"mac"`
		Port  string `json:"ifname"`
		State string `json:"state"`
	}
	l.sw.jsonOf(&entries, "bridge", "-j", "fdb", "show", "br", "br"+itoa(uint8(i)))
	for _, e := range entries {
		if strings.EqualFold(e.MAC, mac) && e.State != "permanent" {
			return strings.TrimSuffix(e.Port, "-1")
		}
	}
	return ""
}
