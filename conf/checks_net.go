package conf

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// The kinds of values of checks over the network.
var (
	sendKind   = &kind{"send", "a string of 1..4096 bytes (\"PING\\r\\n\")", []string{"type", "length"}, parseSend}
	regexKind  = &kind{"regex", "a regular expression of 1..1024 bytes, as RE2 has them (\"^\\\\+PONG\")", []string{"type", "length", "syntax"}, parseRegex}
	hexKind    = &kind{"hex", `hexadecimal digits, blanks anywhere ("0001 1d 5")`, []string{"type", "syntax", "length"}, parseHex}
	answerKind = &kind{"answer", `true, false, or hexadecimal digits, with X where a digit does not matter ("00 01 8X")`, []string{"type", "syntax", "length"}, parseAnswer}
)

const (
	bytesMax   = 4096 // of what a check sends or compares
	usualReply = 255  // bytes of an answer, at most
)

// Reply is what require_reply asks of an answer.
type Reply struct {
	Required bool
	Pattern  string // how it begins: hexadecimal digits, two a byte, X where one does not matter; "": anything
}

// Bytes returns the pattern, and a mask of the same length whose bits are 0 where
// those of the answer do not matter.
func (r Reply) Bytes() (pattern, mask []byte) {
	pattern, mask, _ = hexBytes(r.Pattern, true)
	return pattern, mask
}

// text returns the value of require_reply.
func (r Reply) text() any {
	switch {
	case !r.Required:
		return unwritten{r.Pattern}
	case r.Pattern == "":
		return true
	}
	return r.Pattern
}

// pattern shows bytes as a Reply has them.
func pattern(b, mask []byte) string {
	digits := []byte(hex.EncodeToString(b))
	for i := range digits {
		if m := mask[i/2]; i%2 == 0 && m>>4 == 0 || i%2 == 1 && m&15 == 0 {
			digits[i] = 'X'
		}
	}
	return string(digits)
}

// parseSend reads what a check sends.
func parseSend(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if s == "" || len(s) > bytesMax {
		return f.bad("length", fmt.Sprintf("%d bytes are out of range", len(s)))
	}
	return s, true
}

// parseRegex reads a regular expression.
func parseRegex(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	if s == "" || len(s) > 1024 {
		return f.bad("length", fmt.Sprintf("%d bytes are out of range", len(s)))
	}
	if _, err := regexp.Compile(s); err != nil {
		return f.bad("syntax", shown(f.it)+" is no regular expression: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return s, true
}

// parseHex reads bytes.
func parseHex(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	b, _, ok := hexBytes(s, false)
	switch {
	case !ok:
		return f.bad("syntax", shown(f.it)+" is not hexadecimal")
	case len(b) > bytesMax:
		return f.bad("length", fmt.Sprintf("%d bytes are too many, at most %d", len(b), bytesMax))
	}
	return b, true
}

// parseAnswer reads require_reply.
func parseAnswer(f field) (any, bool) {
	if on, ok := f.it.value.(bool); ok {
		return Reply{Required: on}, true
	}
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	b, mask, ok := hexBytes(s, true)
	switch {
	case !ok:
		return f.bad("syntax", shown(f.it)+" is not hexadecimal")
	case len(b) > bytesMax:
		return f.bad("length", fmt.Sprintf("%d bytes are too many, at most %d", len(b), bytesMax))
	}
	return Reply{true, pattern(b, mask)}, true
}

// hexBytes reads hexadecimal digits as keepalived does: two make a byte, a single
// one before a blank or the end is a byte with 0 before it. With wild an X stands
// for a digit that does not matter, and is 0 in the mask.
func hexBytes(s string, wild bool) (b, mask []byte, ok bool) {
	for _, word := range strings.Fields(s) {
		if len(word)%2 == 1 { // the last digit stands alone
			word = word[:len(word)-1] + "0" + word[len(word)-1:]
		}
		for i := 0; i < len(word); i += 2 {
			high, highMask, okHigh := hexDigit(word[i], wild)
			low, lowMask, okLow := hexDigit(word[i+1], wild)
			if !okHigh || !okLow {
				return nil, nil, false
			}
			b, mask = append(b, high<<4|low), append(mask, highMask<<4|lowMask)
		}
	}
	return b, mask, len(b) > 0
}

func hexDigit(c byte, wild bool) (value, mask byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', 15, true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, 15, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, 15, true
	case wild && (c == 'x' || c == 'X'):
		return 0, 0, true
	}
	return 0, 0, false
}

// The tables of checks over the network that have keys of their own.
var (
	udpCheckBlock = &block{
		name: "UDP_CHECK", header: "[virtual_server.real_server.UDP_CHECK]",
		doc: "The server is up when a datagram to it is answered as wanted; without require_reply, when the network reports no error until connect_timeout is over. " +
			"That a host is away is known after about 3 s of ARP, so give such a check a longer connect_timeout.",
		keys: checkKeys(
			&key{name: "payload", kind: hexKind, defText: "16 random bytes", doc: "What is sent. A digit that stands alone is a byte: \"Ab12f 3\" is AB 12 0F 03."},
			&key{name: "require_reply", kind: answerKind, def: Reply{}, defText: "`false`", doc: "An answer must come: any (true), or one that begins so, as far as both are long."},
			&key{name: "min_reply_length", kind: intKind, min: 0, max: 65535, def: 0, doc: "The least length of the answer in bytes, with require_reply."},
			&key{name: "max_reply_length", kind: intKind, min: 0, max: 65535, def: usualReply, doc: "The greatest length of the answer in bytes, with require_reply."}),
	}
	pingCheckBlock = &block{
		name: "PING_CHECK", header: "[virtual_server.real_server.PING_CHECK]",
		doc: "The server is up when it answers one of three ICMP echo requests within connect_timeout. " +
			"It works with the sysctl net.ipv4.ping_group_range and else with CAP_NET_RAW; vipd changes neither.",
		keys: withoutPorts(checkKeys()),
	}
	grpcCheckBlock = &block{
		name: "GRPC_CHECK", header: "[virtual_server.real_server.GRPC_CHECK]",
		doc: "The server is up when its gRPC health service, grpc.health.v1, says SERVING. keepalived has nothing like it.",
		keys: checkKeys(
			pathKey("that of the real server"),
			&key{name: "service", kind: textKind, min: 1, max: 255, defText: "the whole server", doc: "Whose health is asked for, as in \"shop.v1.Orders\"."},
			&key{name: "tls", kind: boolKind, def: false, doc: "Speak TLS. The certificate is not verified."},
			&key{name: "sni_name", kind: solidKind, min: 1, max: 253, doc: "The TLS server name to send."},
			&key{name: "virtualhost", kind: solidKind, min: 1, max: 253, defText: "that of the real server, else the address", doc: "The name that the server is asked under (:authority)."}),
	}
)

// withoutPorts drops the keys of ports and of what listens there.
func withoutPorts(keys []*key) (out []*key) {
	for _, k := range keys {
		if k.name != "connect_port" && k.name != "bind_port" && k.name != "delay_if_refused" {
			out = append(out, k)
		}
	}
	return out
}

// talk settles what is special to TCP_CHECK.
func (b *builder) talk(c, _, _ *values, k *Check) {
	k.Send, k.Expect = get[string](c, "send"), get[string](c, "expect")
}

// datagram settles what is special to UDP_CHECK.
func (b *builder) datagram(c, _, _ *values, k *Check) {
	k.Payload, k.Reply = get[[]byte](c, "payload"), get[Reply](c, "require_reply")
	k.MinReply, k.MaxReply = c.num("min_reply_length"), c.num("max_reply_length")
	if !k.Reply.Required {
		for _, name := range []string{"min_reply_length", "max_reply_length"} {
			if c.has(name) && !c.wrong("require_reply") {
				b.say(Warning, c, name, "UDP_CHECK."+name+"/unused", "has no effect without require_reply", "add require_reply = true, or take it out")
			}
		}
		return
	}
	if k.MinReply > k.MaxReply {
		b.say(Error, c, "min_reply_length", "UDP_CHECK.min_reply_length/contradiction", fmt.Sprintf("no answer is at least %d and at most %d bytes long", k.MinReply, k.MaxReply), "min_reply_length must not be above max_reply_length, which is 255 unless you set it")
	}
}

// health settles what is special to GRPC_CHECK.
func (b *builder) health(c, r, v *values, k *Check) {
	k.Service, k.TLS, k.SNI = get[string](c, "service"), get[bool](c, "tls"), get[string](c, "sni_name")
	k.VirtualHost = get[string](inherit("virtualhost", c, r, v), "virtualhost")
	if k.SNI != "" && !k.TLS && !c.wrong("tls") {
		b.say(Warning, c, "sni_name", "GRPC_CHECK.sni_name/unused", "has no effect without tls", "add tls = true, or take it out")
	}
}
