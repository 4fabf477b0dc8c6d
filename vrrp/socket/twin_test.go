package socket

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHearTwin: an advert from our own address that comes by the wire is heard though
// the kernel drops it as a martian. Adverts of others and our own are not it.
func TestHearTwin(t *testing.T) {
	frame := referenceFrames(t, "v3-ipv4.txt")[0].Data // from 10.9.0.1, MAC 02:00:00:00:00:01
	for name, c := range map[string]struct {
		src  string
		own  bool // the frame is one that this machine sends
		want string
	}{
		"a twin":         {"10.9.0.1", false, "02:00:00:00:00:01"},
		"another router": {"10.9.0.2", false, ""},
		"our own":        {"10.9.0.1", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, 2)
			far := w.capture(t)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			fd, to := far.fd, far.to
			if c.own {
				to = unix.SockaddrLinklayer{Protocol: far.to.Protocol, Ifindex: w.index}
				w.near.do(t, func() (err error) {
					fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
					return err
				})
				defer unix.Close(fd)
			}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
					}
					if err := unix.Sendto(fd, frame, 0, &to); err != nil {
						t.Error(err)
					}
				}
			}()
			var mac net.HardwareAddr
			w.near.do(t, func() (err error) {
				mac, err = HearTwin(ctx, w.index, netip.MustParseAddr(c.src))
				return err
			})
			close(stop)
			<-done
			if mac.String() != c.want {
				t.Errorf("heard %q, want %q", mac, c.want)
			}
		})
	}
	w := newWire(t, 2)
	w.near.do(t, func() error {
		if _, err := HearTwin(t.Context(), w.index+1000, netip.MustParseAddr("10.9.0.1")); err == nil {
			t.Error("it listens on an interface that does not exist")
		}
		return nil
	})
}
