package netlink

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cf "github.com/cloudflare/ipvs"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// fakeSocket answers batches as its functions say.
type fakeSocket struct {
	sent     [][]netlink.Message
	seq      uint32
	answers  []func() ([]netlink.Message, error)
	onSend   func(f *fakeSocket, m []netlink.Message)
	deadline time.Time
}

func (f *fakeSocket) SendMessages(m []netlink.Message) ([]netlink.Message, error) {
	for i := range m {
		f.seq++
		m[i].Header.Sequence = f.seq
	}
	f.sent = append(f.sent, m)
	f.onSend(f, m)
	return m, nil
}

func (f *fakeSocket) Receive() ([]netlink.Message, error) {
	if len(f.answers) == 0 {
		return nil, &netlink.OpError{Op: "receive", Err: os.ErrDeadlineExceeded}
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	return a()
}

func (f *fakeSocket) SetDeadline(t time.Time) error { f.deadline = t; return nil }
func (f *fakeSocket) Close() error                  { return nil }

func ack(seq uint32) func() ([]netlink.Message, error) {
	return func() ([]netlink.Message, error) {
		return []netlink.Message{{Header: netlink.Header{Type: netlink.Error, Sequence: seq}}}, nil
	}
}

func nack(seq uint32, errno unix.Errno) func() ([]netlink.Message, error) {
	return func() ([]netlink.Message, error) {
		return nil, &netlink.OpError{Op: "receive", Err: errno, Sequence: seq}
	}
}

func someOps(n int) []ipvs.Op {
	ops := make([]ipvs.Op, n)
	for i := range ops {
		ops[i] = ipvs.Op{Kind: ipvs.AddService, Service: ipvs.Service{Key: ipvs.MarkKey(uint32(i+1), false), Scheduler: "rr"}}
	}
	return ops
}

// TestBatchMatchesAnswers: answers come in any order, late answers to earlier messages do not count.
func TestBatchMatchesAnswers(t *testing.T) {
	f := &fakeSocket{seq: 100, onSend: func(f *fakeSocket, m []netlink.Message) {
		f.answers = append(f.answers, ack(7), nack(8, unix.EIO))
		for i := len(m) - 1; i >= 0; i-- {
			if seq := m[i].Header.Sequence; seq%10 == 0 {
				f.answers = append(f.answers, nack(seq, unix.EEXIST))
			} else {
				f.answers = append(f.answers, ack(seq))
			}
		}
	}}
	errs := (&batcher{c: f}).apply(someOps(250))
	if len(f.sent) != 3 || len(f.sent[0]) != batchSize || len(f.sent[2]) != 50 {
		t.Fatalf("%d batches", len(f.sent))
	}
	for i, err := range errs {
		if want := (101+i)%10 == 0; want != errors.Is(err, unix.EEXIST) || !want && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if d := time.Until(f.deadline); d <= 0 || d > Timeout {
		t.Errorf("deadline in %v", d)
	}
}

// TestBatchTimesOut: what the kernel did not answer fails, what it did counts, and no further batch is sent.
func TestBatchTimesOut(t *testing.T) {
	f := &fakeSocket{onSend: func(f *fakeSocket, m []netlink.Message) { f.answers = append(f.answers, ack(m[1].Header.Sequence)) }}
	errs := (&batcher{c: f}).apply(someOps(150))
	if len(f.sent) != 1 {
		t.Errorf("%d batches", len(f.sent))
	}
	for i, err := range errs {
		if answered := i == 1; answered != (err == nil) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("change %d: %v", i, err)
		}
	}
}

// hungClient is a library client whose calls end only when it is closed.
type hungClient struct {
	cf.Client
	closed chan struct{}
}

func (h hungClient) Services() ([]cf.ServiceExtended, error) {
	<-h.closed
	return nil, os.ErrClosed
}
func (h hungClient) Close() error { close(h.closed); return nil }

// TestHungCallReturns: a call that the kernel does not answer returns in time and leaves the connection unusable.
func TestHungCallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Conn{client: hungClient{closed: make(chan struct{})}}
		begin := time.Now()
		if _, err := c.Read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != Timeout {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if _, err := c.Read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != Timeout {
			t.Errorf("again: %v after %v", err, time.Since(begin))
		}
	})
}

func TestErrorText(t *testing.T) {
	service := ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "twos"}
	v6 := ipvs.Destination{Address: netip.MustParseAddrPort("[2001:db8::1]:80"), Method: ipvs.DR, Weight: 1}
	refused := func(e unix.Errno) error { return &netlink.OpError{Op: "receive", Err: e} }
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{&Error{ipvs.Op{Kind: ipvs.AddService, Service: service}, refused(unix.ENOENT)},
			`ipvsadm -A -t 10.9.0.100:80 -s twos: scheduler "twos" is not in this kernel: modprobe ip_vs_twos failed (no such file or directory)`},
		{&Error{ipvs.Op{Kind: ipvs.AddService, Service: service}, refused(unix.EPERM)},
			`ipvsadm -A -t 10.9.0.100:80 -s twos: not permitted: run as root or with CAP_NET_ADMIN (operation not permitted)`},
		{&Error{ipvs.Op{Kind: ipvs.AddDestination, Service: service, Destination: v6}, refused(unix.EINVAL)},
			`ipvsadm -a -t 10.9.0.100:80 -r [2001:db8::1]:80 -g -w 1: a server of another address family than its service needs the method TUN (invalid argument)`},
		{&Error{ipvs.Op{Kind: ipvs.DelDestination, Service: service, Destination: v6}, refused(unix.ENOENT)},
			`ipvsadm -d -t 10.9.0.100:80 -r [2001:db8::1]:80: no such file or directory`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if !errors.Is(&Error{Err: refused(unix.ESRCH)}, unix.ESRCH) {
		t.Error("the errno is lost")
	}
	if err := openError(os.ErrNotExist); !errors.Is(err, ErrNoIPVS) || !strings.Contains(err.Error(), "modprobe ip_vs") {
		t.Errorf("without IPVS: %v", err)
	}
}
