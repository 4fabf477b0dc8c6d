// Package packet reads and writes VRRP advertisements: version 2 (RFC 3768)
// and version 3 (RFC 5798 and RFC 9568), over IPv4 and IPv6.
//
// [Advert] is the message as a value. [Advert.Decode] makes every check that
// the bytes alone allow, in the receive order of RFC 9568 §7.1, and names the
// first one that fails as a [DropReason]; it never panics and never allocates
// once Addrs has grown to the largest message seen. [Advert.AppendTo] is its
// inverse: an accepted message is written back byte for byte. [Verify] makes
// the checks that need an instance's configuration. [VRRP] is the same codec
// as a gopacket layer.
//
// # Checksums
//
// The field counts as zero while the sum is taken.
//
//	version 2, IPv4   message only, with its 8 authentication bytes (RFC 3768 §5.3.8)
//	version 3, IPv4   sent with the IPv4 pseudo-header (RFC 5798 as deployed) or
//	                  without (RFC 9568 §5.2.8) as Form says; both are accepted
//	IPv6              always with the IPv6 pseudo-header (RFC 8200 §8.1)
//
// # Length
//
// A message is as long as its header says, to the byte. The one known trailer,
// the 28 bytes of an HMAC authentication after the addresses (and after the 8
// authentication bytes of version 2), is spoken by [Advert.DecodeSigned] and
// [Advert.AppendSigned]; to Decode, as to a router without auth_hmac, such a
// message is too long: DropLength.
package packet
