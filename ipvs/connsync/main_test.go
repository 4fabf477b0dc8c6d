package connsync

import (
	"testing"

	"vipd/test/ownns"
)

// TestMain runs all tests in a network namespace of their own.
func TestMain(m *testing.M) { ownns.Main(m) }
