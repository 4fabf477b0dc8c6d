// Package checksum is the checksum of the Internet protocols (RFC 1071).
package checksum

// Add adds b to a one's-complement sum of 16-bit words that is not yet folded. An odd last byte counts as the high half
// of a word, so all parts of a message but the last must have an even length. A uint32 is wide enough for 65,536 words.
func Add(sum uint32, b []byte) uint32 {
	for len(b) >= 2 {
		sum += uint32(b[0])<<8 | uint32(b[1])
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

// Fold turns the sum into the checksum. That of a message with a right checksum in it is 0.
func Fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
