package conf

import (
	"fmt"
	"net/netip"
)

// pathWords are the values of check_path.
var pathWords = []string{"server", "vip"}

// pathKey is check_path of a virtual server, a real server or a check.
func pathKey(from string) *key {
	k := &key{name: "check_path", kind: choiceKind, words: pathWords, defText: from,
		doc: "Where checks over TCP connect to: \"server\", the address of the real server, or \"vip\", the address of the service, by packets that go to this real server as those of a client do. That sees a server that lacks the address on lo. For lvs_method DR on a shared link."}
	if from == "" {
		k.def, k.differs = "server", "keepalived checks the real server's address."
	}
	return k
}

// path settles whether a check goes to the address of the service, and by which
// server.
func (b *builder) path(c, r, v *values, rs *RealServer, k *Check) {
	from := inherit("check_path", c, r, v)
	if get[string](from, "check_path") != "vip" {
		return
	}
	vip := get[netip.AddrPort](v, "address")
	switch {
	case rs.Method != "DR" && !r.wrong("lvs_method") && !v.wrong("lvs_method"):
		b.say(Error, from, "check_path", "check.check_path/method", fmt.Sprintf("%s is served by %s, whose packets do not reach the server as they are", rs.Address, rs.Method),
			"check_path = \"vip\" is for lvs_method = \"DR\"; leave it out, or write check_path = \"server\" for this server")
		return
	case !vip.IsValid() && !c.has("connect_ip"):
		if !v.given("address") && !c.wrong("connect_ip") {
			b.say(Error, from, "check_path", "check.check_path/address", "the service has no address, so it is not clear what to connect to", "add connect_ip = \"VIP\" and connect_port to the "+c.block.name)
		}
		return
	case c.has("fwmark"):
		b.say(Warning, c, "fwmark", "check.fwmark/unused", "has no effect with check_path = \"vip\"", "such packets follow no routing rules; take it out")
	}
	port := vip.Port()
	if port == 0 {
		port = rs.Address.Port()
	}
	k.Via, k.Target = rs.Address.Addr(), netip.AddrPortFrom(vip.Addr(), port)
}
