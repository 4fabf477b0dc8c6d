// Package pingcheck is PING_CHECK: the server is healthy when it answers an ICMP
// echo request. See README.md.
package pingcheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"vipd/healthcheck"
	"vipd/healthcheck/internal/connect"
)

const (
	// requests are how many echo requests an attempt sends at most, spread over
	// its time: one packet that is lost says nothing.
	requests  = 3
	firstWait = time.Second // for each answer, where there is no deadline
)

// Config is what a PING_CHECK needs.
type Config struct {
	Target netip.Addr // the server
	Source healthcheck.Source
}

// Key names everything that decides the result, for use as the identity of the check.
func (c Config) Key() string { return "PING_CHECK " + c.Target.String() + c.Source.Key() }

// Checker is a healthcheck.Checker that sends echo requests.
type Checker struct {
	cfg Config
	raw atomic.Bool // the kernel does not give this process datagram sockets for ICMP
}

// New makes the checker. The error says what is wrong with the settings.
func New(cfg Config) (*Checker, error) {
	if !cfg.Target.IsValid() {
		return nil, errors.New("making PING_CHECK: there is no address to send to")
	}
	cfg.Target = cfg.Target.Unmap()
	return &Checker{cfg: cfg}, nil
}

// Check implements healthcheck.Checker.
func (c *Checker) Check(ctx context.Context) healthcheck.Result {
	start := time.Now()
	detail, err := c.ping(ctx, start)
	if err != nil {
		return healthcheck.Result{Detail: err.Error(), Latency: time.Since(start), LocalFault: connect.IsLocal(err)}
	}
	return healthcheck.Result{OK: true, Detail: detail, Latency: time.Since(start)}
}

func (c *Checker) ping(ctx context.Context, start time.Time) (string, error) {
	op := "ping " + c.cfg.Target.String()
	conn, raw, err := c.open(ctx, op)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	e := echo{six: c.cfg.Target.Is6(), raw: raw}
	_, _ = rand.Read(e.token[:]) // never fails
	for e.sequence = 1; e.sequence <= requests; e.sequence++ {
		if err := conn.WaitUntil(ctx, share(ctx, int(e.sequence))); err != nil {
			return "", connect.Refusal(op, err)
		}
		err := request(conn, &e)
		switch {
		case err == nil:
			return fmt.Sprintf("%s: answered after %v", op, time.Since(start).Round(10*time.Microsecond)), nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return "", connect.Refusal(op, err)
		case ctx.Err() != nil:
			return "", connect.Timeout(ctx, op, start)
		}
	}
	return "", connect.Timeout(ctx, op, start)
}

// share is when the wait for the answer to request i ends: after its part of the
// time that is left.
func share(ctx context.Context, i int) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Now().Add(firstWait)
	}
	if i == requests {
		return deadline
	}
	return time.Now().Add(time.Until(deadline) / time.Duration(requests+1-i))
}

// request sends one echo request and waits for the answer to this one or an
// earlier one.
func request(conn *connect.Conn, e *echo) error {
	if _, err := conn.Write(e.request()); err != nil {
		return err
	}
	packet := make([]byte, 2048)
	for {
		n, err := conn.Read(packet)
		if err != nil {
			return err
		}
		if e.answers(packet[:n]) {
			return nil
		}
	}
}

// open gives a socket for echo requests: a datagram socket, which needs no rights
// where ping_group_range names the group, else a raw one.
func (c *Checker) open(ctx context.Context, op string) (conn *connect.Conn, raw bool, err error) {
	protocol := unix.IPPROTO_ICMP
	if c.cfg.Target.Is6() {
		protocol = unix.IPPROTO_ICMPV6
	}
	target := netip.AddrPortFrom(c.cfg.Target, 0)
	if !c.raw.Load() {
		conn, err = connect.Datagram(ctx, op, target, c.cfg.Source, unix.SOCK_DGRAM, protocol)
		if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPROTONOSUPPORT) {
			return conn, false, err
		}
	}
	conn, rawErr := connect.Datagram(ctx, op, target, c.cfg.Source, unix.SOCK_RAW, protocol)
	if errors.Is(rawErr, unix.EPERM) {
		return nil, true, &connect.Error{Op: op, Err: rawErr, Local: true,
			Hint: "vipd may neither open raw sockets nor ICMP sockets: give it CAP_NET_RAW, or put its group into the sysctl net.ipv4.ping_group_range"}
	}
	if rawErr != nil {
		// A prohibit route is EACCES, too: then the raw socket says the same.
		return nil, true, rawErr
	}
	c.raw.Store(true)
	return conn, true, nil
}
