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

// TestBatchMatchesAnswers: only the last of a batch is to be answered; what is refused is answered all the same. Late
// answers to earlier messages do not count.
func TestBatchMatchesAnswers(t *testing.T) {
	f := &fakeSocket{seq: 100, onSend: func(f *fakeSocket, m []netlink.Message) {
		f.answers = append(f.answers, ack(7), nack(8, unix.EIO))
		for i := range m {
			switch seq := m[i].Header.Sequence; {
			case seq%10 == 0:
				f.answers = append(f.answers, nack(seq, unix.EEXIST))
			case m[i].Header.Flags&netlink.Acknowledge != 0:
				f.answers = append(f.answers, ack(seq))
			}
		}
	}}
	errs := (&batcher{c: f}).apply(someOps(255))
	if len(f.sent) != 3 || len(f.sent[0]) != batchSize || len(f.sent[2]) != 55 {
		t.Fatalf("%d batches", len(f.sent))
	}
	for i, err := range errs {
		if want := (101+i)%10 == 0; want != errors.Is(err, unix.EEXIST) || !want && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	for _, m := range f.sent {
		for i := range m {
			if asked := m[i].Header.Flags&netlink.Acknowledge != 0; asked != (i == len(m)-1) {
				t.Errorf("message %d of %d asks for an answer: %v", i, len(m), asked)
			}
		}
	}
	if d := time.Until(f.deadline); d <= 0 || d > Timeout {
		t.Errorf("deadline in %v", d)
	}
}

// TestBatchTimesOut: without the last answer a batch fails, but for what was refused before, and no further one is sent.
func TestBatchTimesOut(t *testing.T) {
	f := &fakeSocket{onSend: func(f *fakeSocket, m []netlink.Message) {
		f.answers = append(f.answers, nack(m[1].Header.Sequence, unix.EEXIST))
	}}
	errs := (&batcher{c: f}).apply(someOps(150))
	if len(f.sent) != 1 {
		t.Errorf("%d batches", len(f.sent))
	}
	for i, err := range errs {
		if want := map[bool]error{true: unix.EEXIST, false: os.ErrDeadlineExceeded}[i == 1]; !errors.Is(err, want) {
			t.Errorf("change %d: %v, want %v", i, err, want)
		}
	}
}

// hungClient is a library client whose calls end only when it is closed.
type hungClient struct {
	cf.Client
	closed chan struct{}
}

func (h hungClient) Destinations(cf.Service) ([]cf.DestinationExtended, error) {
	<-h.closed
	return nil, os.ErrClosed
}
func (h hungClient) Close() error { close(h.closed); return nil }

// TestHungCallReturns: a call that the kernel does not answer returns in time and leaves the connection unusable.
func TestHungCallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSocket{onSend: func(f *fakeSocket, m []netlink.Message) {
			f.answers = append(f.answers, listing(m[0], anyService()))
		}}
		c := &Conn{client: hungClient{closed: make(chan struct{})}, batch: &batcher{c: f}}
		begin := time.Now()
		if _, err := c.Read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != Timeout {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if _, err := c.Read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != Timeout {
			t.Errorf("again: %v after %v", err, time.Since(begin))
		}
	})
}

func anyService() ipvs.Service {
	return ipvs.Service{Key: ipvs.AddressKey(ipvs.UDP, netip.MustParseAddrPort("10.9.0.100:5060")), Scheduler: "mh", Flags: ipvs.FlagSched2,
		Persistence: time.Minute, Granularity: 24, Engine: "sip"}
}

// listing answers a dump with a service, as the kernel does.
func listing(ask netlink.Message, s ipvs.Service) func() ([]netlink.Message, error) {
	data := encode(ipvs.Op{Kind: ipvs.AddService, Service: s})
	return func() ([]netlink.Message, error) {
		return []netlink.Message{{Header: netlink.Header{Sequence: ask.Header.Sequence}, Data: data}}, nil
	}
}

// TestListing: a listed service is what was written, whatever late answers come before; a short answer is an error.
func TestListing(t *testing.T) {
	for _, want := range []ipvs.Service{anyService(), {Key: ipvs.MarkKey(7, true), Scheduler: "rr", Persistence: time.Second, Granularity: 64}} {
		f := &fakeSocket{seq: 5, onSend: func(f *fakeSocket, m []netlink.Message) {
			f.answers = append(f.answers, ack(3), nack(4, unix.ENOENT), listing(m[0], want))
		}}
		got, err := (&batcher{c: f}).services()
		if err != nil || len(got) != 1 || got[0] != want.Normal() {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	f := &fakeSocket{onSend: func(f *fakeSocket, m []netlink.Message) {
		f.answers = append(f.answers, func() ([]netlink.Message, error) {
			return []netlink.Message{{Header: m[0].Header, Data: []byte{1, 1}}}, nil
		})
	}}
	if got, err := (&batcher{c: f}).services(); err == nil {
		t.Errorf("a short answer is read as %v", got)
	}
	f = &fakeSocket{onSend: func(f *fakeSocket, m []netlink.Message) {
		f.answers = append(f.answers, nack(m[0].Header.Sequence, unix.ENOENT))
	}}
	if _, err := (&batcher{c: f}).services(); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a refused dump: %v", err)
	}
}

// FuzzDecodeService: no answer makes the reading fail otherwise than with an error, and what is read is in normal form.
func FuzzDecodeService(f *testing.F) {
	for _, s := range []ipvs.Service{anyService(), {Key: ipvs.MarkKey(7, true), Scheduler: "rr"}} {
		f.Add(encode(ipvs.Op{Kind: ipvs.AddService, Service: s})[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodeService(b); err == nil && s != s.Normal() {
			t.Errorf("%+v is not in normal form", s)
		}
	})
}

func TestErrorText(t *testing.T) {
	service := ipvs.Service{Key: ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80")), Scheduler: "twos"}
	v6 := ipvs.Destination{Address: netip.MustParseAddrPort("[2001:db8::1]:80"), Method: ipvs.DR, Weight: 1}
	sip, tunnelled, crossed := service, v6, v6
	sip.Engine, tunnelled.Method = "sip", ipvs.TUN
	crossed.Upper, crossed.Lower = 1, 2
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
		{&Error{ipvs.Op{Kind: ipvs.AddService, Service: sip}, refused(unix.ENOENT)},
			`ipvsadm -A -t 10.9.0.100:80 -s twos --pe sip: scheduler "twos" or persistence engine "sip" is not in this kernel: modprobe ip_vs_twos or ip_vs_pe_sip failed (no such file or directory)`},
		{&Error{ipvs.Op{Kind: ipvs.AddDestination, Service: service, Destination: tunnelled}, refused(unix.EINVAL)},
			`ipvsadm -a -t 10.9.0.100:80 -r [2001:db8::1]:80 -i -w 1: the kernel takes no server of another address family than its service while a connection sync daemon runs (invalid argument)`},
		{&Error{ipvs.Op{Kind: ipvs.EditDestination, Service: service, Destination: crossed}, refused(unix.ERANGE)},
			`ipvsadm -e -t 10.9.0.100:80 -r [2001:db8::1]:80 -g -w 1 -x 1 -y 2: the lower connection limit is above the upper one (numerical result out of range)`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if !errors.Is(&Error{Err: refused(unix.ESRCH)}, unix.ESRCH) {
		t.Error("the errno is lost")
	}
	if err := openError(os.ErrNotExist); !errors.Is(err, ipvs.ErrAbsent) || !strings.Contains(err.Error(), "modprobe ip_vs") {
		t.Errorf("without IPVS: %v", err)
	}
}
