package checksum_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"vipd/internal/checksum"
)

// TestExample is the example of RFC 1071 §3.
func TestExample(t *testing.T) {
	b := []byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}
	for cut := 0; cut <= len(b); cut += 2 {
		if got := checksum.Fold(checksum.Add(checksum.Add(0, b[:cut]), b[cut:])); got != ^uint16(0xddf2) {
			t.Errorf("in parts of %d and %d bytes: %04x", cut, len(b)-cut, got)
		}
	}
}

// A message of any length with its checksum behind it sums up to 0, also the longest one of the highest words, and one
// with a bit turned does not.
func TestVerifies(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for length := range 67 {
		b := make([]byte, length)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if length%2 == 1 {
			b = append(b, 0)
		}
		verify(t, b)
	}
	highest := make([]byte, 1<<16)
	for i := range highest {
		highest[i] = 0xff
	}
	verify(t, highest)
	if got := checksum.Fold(checksum.Add(0, []byte{0x12})); got != ^uint16(0x1200) {
		t.Errorf("an odd byte: %04x", got)
	}
}

func verify(t *testing.T, b []byte) {
	t.Helper()
	whole := binary.BigEndian.AppendUint16(b, checksum.Fold(checksum.Add(0, b)))
	if got := checksum.Fold(checksum.Add(0, whole)); got != 0 {
		t.Errorf("%d bytes: %04x", len(b), got)
	}
	whole[0] ^= 4
	if got := checksum.Fold(checksum.Add(0, whole)); got == 0 {
		t.Errorf("%d bytes with a bit turned: %04x", len(b), got)
	}
}
