package conf

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// randomInstance makes the i-th instance; its number keeps VRIDs and addresses apart.
func randomInstance(r *rapid.T, i int, c *Config) Instance {
	in := Instance{
		Name: fmt.Sprintf("%d%s", i, name(r)), Interface: "eth0", VRID: uint8(i + 1), Version: uint8(number(r, 2, 3)), IPv6: coin(r), Priority: uint8(number(r, 1, 255)), WantMaster: coin(r),
		DownTimerAdverts: number(r, 1, 100), SkipCheckAddr: coin(r), LowerPrioNoAdv: coin(r),
		Announce: Announce{
			duration(r, 0, time.Hour, time.Millisecond), number(r, 1, 255), duration(r, 0, time.Hour, time.Second), number(r, 1, 255), duration(r, 0, time.Hour, time.Millisecond), number(r, 0, 255),
			duration(r, 0, time.Second, time.Microsecond), duration(r, 0, time.Second, time.Microsecond), duration(r, 0, 24*time.Hour, time.Microsecond), coin(r),
		},
		GARPForm:        rapid.SampledFrom(garpForms).Draw(r, "form"),
		TrackInterfaces: []TrackRef{{Name: "eth1", Weight: number(r, -253, 253), Reverse: coin(r)}},
		Notify:          randomNotify(r), Alert: coin(r),
	}
	in.Group = netip.MustParseAddr("224.0.0.77")
	if in.IPv6 {
		in.Version, in.Group = 3, netip.MustParseAddr("ff02::77")
	}
	if in.Version == 2 {
		in.AdvertInterval = duration(r, time.Second, 255*time.Second, time.Second)
		if coin(r) {
			in.AuthPass = rapid.StringMatching(`[ -~]{1,8}`).Draw(r, "password")
		}
	} else {
		in.AdvertInterval = duration(r, 10*time.Millisecond, 40950*time.Millisecond, 10*time.Millisecond)
		in.ChecksumAsV2 = coin(r) && !in.IPv6
	}
	in.NoAccept = coin(r) && in.Priority < 255
	in.NoPreempt = coin(r) && !in.WantMaster && in.Priority < 255
	switch {
	case in.NoPreempt:
		in.LatePriority = uint8(number(r, 0, 254))
	case in.Priority == 255:
		in.IgnoreAdverts = coin(r)
	case !in.WantMaster:
		in.PreemptDelay = duration(r, 0, 1000*time.Second, time.Millisecond)
	}
	if coin(r) && in.AuthPass == "" {
		in.HMAC = HMAC{
			Mode: rapid.SampledFrom([]string{"enforce", "permissive", "receive-only"}).Draw(r, "mode"), Monotonic: coin(r),
			Window: duration(r, time.Second, 300*time.Second, time.Millisecond), Active: 7,
			Keys: []HMACKey{{uint8(number(r, 1, 6)), rapid.StringMatching(`[ -~]{32,64}`).Draw(r, "key")}, {7, string(make([]byte, number(r, 32, 64)))}},
		}
	}
	if coin(r) {
		in.Unicast, in.UnicastTTL = true, uint8(number(r, 1, 255))
		for j := range number(r, 0, 3) {
			p := Peer{netip.AddrFrom4([4]byte{172, 16, byte(i), byte(j + 1)}), uint8(number(r, 0, 100)), uint8(number(r, 100, 255))}
			if in.IPv6 {
				p.Address = netip.MustParseAddr(fmt.Sprintf("fe80::%d", j+1))
			}
			in.Peers = append(in.Peers, p)
		}
		in.CheckUnicastSource = coin(r) || slices.ContainsFunc(in.Peers, Peer.bounded)
	}
	in.UseVMACAddr, in.DontTrackPrimary = coin(r), coin(r)
	if coin(r) {
		in.UseVMAC = randomVMAC(r, i)
		in.XmitBase = in.Unicast || coin(r)
	}
	for j := range number(r, 0, 3) {
		in.VIPs = append(in.VIPs, randomVIP(r, in.IPv6, i, j))
	}
	for j := range number(r, 0, 3) {
		in.Excluded = append(in.Excluded, randomVIP(r, in.IPv6 != (coin(r) && len(in.VIPs) > 0), i, 10+j))
	}
	in.PromoteSecondaries = coin(r)
	for j := range number(r, 0, 3) {
		in.Routes = append(in.Routes, randomRoute(r, 10*i+j))
		in.Rules = append(in.Rules, randomRule(r, 10*i+j))
	}
	for _, s := range c.Scripts {
		in.TrackScripts = append(in.TrackScripts, randomTrack(r, s.Name, 253, s.Reverse))
	}
	for _, f := range c.TrackFiles {
		in.TrackFiles = append(in.TrackFiles, randomTrack(r, f.Name, 254, f.Reverse))
	}
	for _, p := range c.TrackProcesses {
		in.TrackProcesses = append(in.TrackProcesses, randomTrack(r, p.Name, 254, p.Reverse))
	}
	return in
}

// randomTrack is a line about an object whose weight is turned or not.
func randomTrack(r *rapid.T, name string, most int, turned bool) TrackRef {
	t := TrackRef{Name: name, Weight: number(r, -most, most), Reverse: coin(r)}
	t.Straight = turned && !t.Reverse
	return t
}

// randomVMAC is the use_vmac of the i-th instance.
func randomVMAC(r *rapid.T, i int) *UseVMAC {
	u := &UseVMAC{Group: number(r, -1, 1<<31-1), Notify: coin(r)}
	if coin(r) {
		u.Name = rapid.SampledFrom([]string{"group", "name", "netlink_notify_msg", "v\"m"}).Draw(r, "link")
		if i > 0 {
			u.Name = fmt.Sprintf("vm%d", i)
		}
		u.Name = u.Name[:min(len(u.Name), 15)]
	}
	if coin(r) {
		u.MAC = MAC{2, 0, 0, 0, byte(i), byte(number(r, 0, 255))}
	}
	return u
}

func randomVIP(r *rapid.T, ipv6 bool, i, j int) VIP {
	v := VIP{Dev: "eth" + fmt.Sprint(number(r, 0, 2)), Scope: rapid.SampledFrom([]string{"global", "link", "host", "site", "0", "255"}).Draw(r, "scope"), NoPrefixRoute: coin(r), NoTrack: coin(r), UseVMAC: coin(r)}
	if ipv6 && coin(r) {
		v.PreferredLft = uint32(number(r, 1, 1<<31-1))
	} else {
		v.Deprecated = coin(r)
	}
	if ipv6 {
		v.Prefix = netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::%d", i, j+1)), number(r, 1, 128))
		v.Home, v.DAD, v.ManageTemp = coin(r), coin(r), coin(r)
		if coin(r) {
			v.Peer = netip.MustParseAddr("2001:db8:ffff::1")
		}
		return v
	}
	v.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 1}), number(r, 1, 32))
	if coin(r) {
		v.Peer = netip.MustParseAddr("10.255.0.1")
	}
	v.Label = rapid.StringMatching(`[!-~]{0,15}`).Draw(r, "label")
	if coin(r) {
		v.Broadcast = netip.AddrFrom4([4]byte{10, byte(i), 255, 255})
	}
	return v
}
