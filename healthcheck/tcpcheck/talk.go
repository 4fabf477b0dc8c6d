package tcpcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"vipd/healthcheck/internal/connect"
)

const (
	answerMax = 16 << 10 // bytes in which something must match
	shownMax  = 60       // bytes of an answer that are shown

	lookedMost = 64 * answerMax // bytes that are looked at, again and again, without sparing
)

// talk sends and waits for what is expected, and says in words what came.
func (c *Checker) talk(ctx context.Context, start time.Time, conn io.ReadWriter) (string, error) {
	_, writeErr := io.WriteString(conn, c.cfg.Send)
	if c.expect == nil {
		if writeErr != nil {
			return "", fmt.Errorf("%s, but sending failed: %w", c.ok, explain(ctx, start, writeErr))
		}
		return fmt.Sprintf("%s, sent %d bytes", c.ok, len(c.cfg.Send)), nil
	}
	// A server may answer and close before it has read everything: an error of
	// writing counts only when nothing comes.
	answer, found, err := c.listen(conn)
	switch {
	case found:
		return fmt.Sprintf("%s, which says %s", c.ok, quoted(answer)), nil
	case len(answer) == 0 && writeErr != nil:
		return "", fmt.Errorf("%s, but sending failed: %w", c.ok, explain(ctx, start, writeErr))
	case len(answer) >= answerMax:
		return "", fmt.Errorf("%s: nothing in its first %d bytes is as expected: %s", c.cfg.Target, answerMax, quoted(answer))
	}
	err = explain(ctx, start, err)
	if len(answer) == 0 {
		return "", fmt.Errorf("%s, but it says nothing: %w", c.ok, err)
	}
	return "", fmt.Errorf("%s says %s, which is not as expected, then: %w", c.cfg.Target, quoted(answer), err)
}

// listen reads until something matches, or no more comes. Once much was looked at, a large
// answer is looked at less often, so that one that drips costs little more than one that
// comes at once.
func (c *Checker) listen(conn io.Reader) (answer []byte, found bool, err error) {
	buffer := make([]byte, 4096)
	looked, cost := 0, 0
	for err == nil && len(answer) < answerMax {
		var n int
		n, err = conn.Read(buffer[:min(len(buffer), answerMax-len(answer))])
		answer = append(answer, buffer[:n]...)
		if cost < lookedMost || len(answer) >= looked+looked/8 {
			looked, cost = len(answer), cost+len(answer)
			if c.expect.Match(answer) {
				return answer, true, nil
			}
		}
	}
	return answer, c.expect.Match(answer), err
}

// quoted shows the beginning of an answer.
func quoted(answer []byte) string {
	if len(answer) > shownMax {
		return fmt.Sprintf("%q…", answer[:shownMax])
	}
	return fmt.Sprintf("%q", answer)
}

// explain turns an error of reading or writing into the operator's words.
func explain(ctx context.Context, start time.Time, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no more within %s", connect.Within(ctx, start))
	case err == io.EOF:
		return errors.New("the server closed the connection")
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
