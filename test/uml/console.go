package uml

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// console passes on what the command printed: the bytes between the two
// markers. What came before (the boot) is kept for the error message.
type console struct {
	out io.Writer

	mu    sync.Mutex
	state int    // 0 booting, 1 running, 2 over
	held  []byte // not yet passed on: may be the start of a marker
	log   []byte // the last bytes of everything
}

const tailBytes = 8 << 10

// Write implements io.Writer.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, p...)
	if n := len(c.log) - tailBytes; n > 0 {
		c.log = append(c.log[:0], c.log[n:]...)
	}
	c.held = append(c.held, p...)
	if c.state == 0 {
		i := bytes.Index(c.held, []byte(markerBegin))
		if i < 0 {
			return len(p), nil
		}
		c.held = c.held[i+len(markerBegin):]
		c.state = 1
	}
	if c.state == 1 {
		if err := c.pass(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// pass writes all but a possible beginning of the end marker.
func (c *console) pass() error {
	end := bytes.Index(c.held, []byte(markerEnd))
	n := end
	if end < 0 {
		n = len(c.held)
		for k := min(len(markerEnd)-1, n); k > 0; k-- {
			if strings.HasPrefix(markerEnd, string(c.held[n-k:])) {
				n -= k
				break
			}
		}
	} else {
		c.state = 2
	}
	_, err := c.out.Write(c.held[:n])
	c.held = append(c.held[:0], c.held[n:]...)
	return err
}

// flush passes on what is held back when no marker can come any more.
func (c *console) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == 1 && len(c.held) > 0 {
		// The run is over; an output that cannot be written has nobody to tell.
		_, _ = c.out.Write(c.held)
	}
	c.state = 2
}

// tail is the end of the console for an error message.
func (c *console) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "last lines of its console:\n" + strings.ReplaceAll(string(c.log), "\r\n", "\n")
}
