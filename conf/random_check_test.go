package conf

import (
	"net/netip"
	"time"

	"pgregory.net/rapid"
)

// otherKinds are made by randomChecks.
var otherKinds = []string{"UDP_CHECK", "PING_CHECK", "GRPC_CHECK", "MISC_CHECK"}

// randomChecks fills in checks of the kinds that randomCheck does not make.
func randomChecks(r *rapid.T, rs *RealServer, target netip.AddrPort, files []TrackFile) {
	for _, kind := range otherKinds {
		if !coin(r) {
			continue
		}
		k := randomCheck(r, "TCP_CHECK", target) // what all kinds have
		k.Kind, k.Send, k.Expect = kind, "", ""
		randomOwn(r, &k)
		rs.Checks = append(rs.Checks, k)
	}
	if len(files) > 0 && coin(r) {
		k := Check{Kind: "FILE_CHECK", File: files[0].Name, Fall: 1, Rise: 1, DelayLoop: time.Second, ConnectTimeout: time.Second,
			Dynamic: coin(r), LogAllFailures: coin(r)}
		if k.Dynamic {
			k.Weight, k.Reverse = number(r, -weightMax, weightMax), coin(r)
		}
		rs.Checks = append(rs.Checks, k)
	}
}

// randomOwn fills in what only this kind has, and empties what it has not.
func randomOwn(r *rapid.T, k *Check) {
	switch k.Kind {
	case "UDP_CHECK":
		k.MaxReply = number(r, 0, 65535)
		k.MinReply = number(r, 0, k.MaxReply)
		if coin(r) {
			k.Payload = rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(r, "payload")
		}
		if k.Reply.Required = coin(r); !k.Reply.Required {
			k.MinReply, k.MaxReply = 0, usualReply
		} else if coin(r) {
			k.Reply.Pattern = rapid.StringMatching(`([0-9a-fX][0-9a-fX]){1,9}`).Draw(r, "reply")
		}
	case "PING_CHECK":
		k.Target = netip.AddrPortFrom(k.Target.Addr(), 0)
		if k.Bind.IsValid() {
			k.Bind = netip.AddrPortFrom(k.Bind.Addr(), 0)
		}
	case "GRPC_CHECK":
		k.TLS = coin(r)
		if coin(r) {
			k.Service = text(r)
		}
		if coin(r) {
			k.VirtualHost = solid(r)
		}
		if k.TLS && coin(r) {
			k.SNI = solid(r)
		}
	case "MISC_CHECK":
		k.Target, k.Bind, k.BindIf, k.FWMark = netip.AddrPort{}, netip.AddrPort{}, "", 0
		k.ConnectTimeout = duration(r, 100*time.Millisecond, time.Hour, time.Millisecond)
		k.Argv, k.Dynamic, k.User = []string{"/bin/" + text(r), text(r), ""}, coin(r), user(r)
	}
}
