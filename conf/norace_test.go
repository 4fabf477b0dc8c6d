//go:build !race

package conf

import "time"

// limit of TestBigFileIsFast.
const limit = 300 * time.Millisecond
