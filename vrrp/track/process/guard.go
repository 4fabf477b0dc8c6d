package process

import (
	"fmt"
	"runtime/debug"
)

// Guard calls f and turns a panic into an error with the stack: a fault in what one
// command or tracker needs must not end the daemon.
func Guard(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	f()
	return nil
}
