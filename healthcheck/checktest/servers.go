package checktest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// misbehaviours are servers that accept and then go wrong, each in its phase.
var misbehaviours = map[string]func(conn net.Conn){
	"mute":                 mute,
	"reset at once":        Reset,
	"closed at once":       func(net.Conn) {},
	"half a status line":   say("HTTP/1.1 20", mute),
	"half a header":        say("HTTP/1.1 200 OK\r\nContent-Le", mute),
	"half a body":          say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", mute),
	"half a header, reset": say("HTTP/1.1 200 OK\r\nContent-Le", Reset),
	"half a body, reset":   say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", Reset),
	"dripping header":      say("HTTP/1.1 200 OK\r\nX: ", repeat("x", 5*time.Millisecond)),
	"dripping body":        say("HTTP/1.1 200 OK\r\n\r\n", repeat("x", 5*time.Millisecond)),
	"dripping 1xx":         repeat("HTTP/1.1 102 Processing\r\n\r\n", 5*time.Millisecond),
	"endless header":       say("HTTP/1.1 200 OK\r\n", repeat("X: "+string(bytes.Repeat([]byte("x"), 4000))+"\r\n", 0)),
	"endless header line":  say("HTTP/1.1 200 OK\r\nX: ", repeat(string(bytes.Repeat([]byte("x"), 4096)), 0)),
	"endless body":         say("HTTP/1.1 200 OK\r\n\r\n", repeat(string(bytes.Repeat([]byte("x"), 4096)), 0)),
	"noise":                repeat("\x00\xff\x16\x03\n", 0),
}

// mute reads what comes and says nothing, until the client has gone.
func mute(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// Reset ends the connection with a RST.
func Reset(conn net.Conn) {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func say(text string, then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := io.WriteString(conn, text); err == nil {
			then(conn)
		}
	}
}

// repeat says text again and again until the client has gone.
func repeat(text string, every time.Duration) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
			time.Sleep(every)
		}
	}
}

// Serve listens on 127.0.0.1 until the test ends and runs behave for each
// connection, inside TLS when secure is not nil. The connection is closed when
// behave returns or the test ends.
func Serve(t testing.TB, secure *tls.Config, behave func(conn net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var handlers sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	handlers.Go(func() {
		for {
			conn, err := l.AcceptTCP()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			handlers.Go(func() {
				defer func() {
					mu.Lock()
					delete(open, conn)
					mu.Unlock()
					conn.Close()
				}()
				if secure == nil {
					behave(conn)
					return
				}
				if c := tls.Server(conn, secure); c.Handshake() == nil {
					behave(c)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		handlers.Wait()
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// AnyPort is 127.0.0.1 with a port that the kernel chooses.
var AnyPort = netip.MustParseAddrPort("127.0.0.1:0")

// ServePackets answers UDP packets on addr, which must be of 127.0.0.1, until the
// test ends: with none, one or several packets each. It returns where it does.
func ServePackets(t testing.TB, addr netip.AddrPort, answer func(packet []byte) [][]byte) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	var server sync.WaitGroup
	server.Go(func() {
		buffer := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			for _, packet := range answer(buffer[:n]) {
				_, _ = conn.WriteToUDPAddrPort(packet, from)
			}
		}
	})
	t.Cleanup(func() { conn.Close(); server.Wait() })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Echo answers UDP packets with what they bring.
func Echo(t testing.TB) netip.AddrPort {
	t.Helper()
	return ServePackets(t, AnyPort, func(packet []byte) [][]byte { return [][]byte{packet} })
}

// Refused gives an address on which nobody listens. The port stays taken until
// the test ends, by a socket that does not listen.
func Refused(t *testing.T) netip.AddrPort {
	t.Helper()
	_, addr := boundSocket(t)
	return addr
}

// FullBacklog gives an address whose host ignores SYNs: the listener never
// accepts and its queue is full.
func FullBacklog(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, addr := boundSocket(t)
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		conn, err := net.DialTimeout("tcp4", addr.String(), 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the queue of a listener that does not accept takes more than 16 connections")
	return addr
}

func boundSocket(t *testing.T) (int, netip.AddrPort) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	in := sa.(*unix.SockaddrInet4)
	return fd, netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port))
}

// TLSConfig makes a server configuration with a self-signed certificate for name.
func TLSConfig(t testing.TB, name string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
