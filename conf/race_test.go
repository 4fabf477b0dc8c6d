//go:build race

package conf

import "time"

// limit of TestBigFileIsFast: the race detector makes everything slower.
const limit = 3 * time.Second
