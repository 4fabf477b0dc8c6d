package grpccheck_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"vipd/healthcheck"
	"vipd/healthcheck/checktest"
	"vipd/healthcheck/grpccheck"
)

func check(t *testing.T, cfg grpccheck.Config) healthcheck.Result {
	t.Helper()
	c, err := grpccheck.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return checktest.Attempt(t, c, time.Second)
}

// answer is how the health service of a test answers.
type answer struct {
	status  string // grpc-status; "" leaves it out
	http    int
	message []byte
	early   bool // as a trailer alone, without a body
}

// message is HealthCheckResponse with this status and its prefix.
func message(status byte) []byte { return []byte{0, 0, 0, 0, 2, 0x08, status} }

// serveGRPC is a server on the HTTP/2 of the standard library.
func serveGRPC(t *testing.T, secure *tls.Config, services map[string]answer) netip.AddrPort {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		service := ""
		if len(body) > 7 {
			service = string(body[7:])
		}
		switch {
		case r.ProtoMajor != 2 || r.Method != "POST" || r.URL.Path != "/grpc.health.v1.Health/Check" || r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("Te") != "trailers":
			t.Errorf("asked %s %s %s %v", r.Proto, r.Method, r.URL, r.Header)
		case len(body) < 5 || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5:
			t.Errorf("the message is %x", body)
		}
		a, ok := services[service]
		if !ok {
			a = answer{status: "5", early: true}
		}
		w.Header().Set("Content-Type", "application/grpc")
		if a.early {
			w.Header().Set("Grpc-Status", a.status)
			w.Header().Set("Grpc-Message", "as asked by "+r.Host)
			return
		}
		w.Header().Set("Trailer", "Grpc-Status")
		if a.http != 0 {
			w.WriteHeader(a.http)
		}
		_, _ = w.Write(a.message)
		if a.status != "" {
			w.Header().Set("Grpc-Status", a.status)
		}
	})
	server := &http.Server{Handler: handler, TLSConfig: secure, Protocols: &http.Protocols{}, ErrorLog: log.New(io.Discard, "", 0)}
	server.Protocols.SetUnencryptedHTTP2(secure == nil)
	server.Protocols.SetHTTP2(secure != nil)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if secure == nil {
			_ = server.Serve(l)
		} else {
			_ = server.ServeTLS(l, "", "")
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func TestAnswers(t *testing.T) {
	services := map[string]answer{
		"":          {status: "0", message: message(1)},
		"down":      {status: "0", message: message(2)},
		"unknown":   {status: "0", message: []byte{0, 0, 0, 0, 0}},
		"withdrawn": {status: "0", message: message(3)},
		"later":     {status: "0", message: message(9)},
		"more":      {status: "0", message: []byte{0, 0, 0, 0, 9, 0x12, 1, 'x', 0x1d, 1, 2, 3, 4, 0x08, 1}},
		"nothing":   {status: "0"},
		"broken":    {status: "0", message: []byte{0, 0, 0, 0, 2, 0x08}},
		"packed":    {status: "0", message: append([]byte{1}, message(1)[1:]...)},
		"away":      {status: "12", early: true},
		"busy":      {status: "14", early: true},
		"mute":      {message: message(1)},
		"http":      {http: 503, message: message(1), status: "0"},
	}
	services["more"].message[4] = byte(len(services["more"].message) - 5)
	for _, secure := range []*tls.Config{nil, checktest.TLSConfig(t, "localhost")} {
		addr := serveGRPC(t, secure, services)
		for _, tt := range []struct {
			service string
			ok      bool
			detail  string
		}{
			{"", true, "health of the server: SERVING"},
			{"more", true, "health of more: SERVING"},
			{"down", false, "health of down: NOT_SERVING"},
			{"unknown", false, "UNKNOWN"},
			{"withdrawn", false, "SERVICE_UNKNOWN"},
			{"later", false, "status 9"},
			{"nothing", false, "no HealthCheckResponse"},
			{"broken", false, "no HealthCheckResponse"},
			{"packed", false, "compressed"},
			{"no such", false, "does not know this service"},
			{"away", false, "no health service grpc.health.v1"},
			{"busy", false, `grpc-status "14": "as asked by health.example"`},
			{"mute", false, "no grpc-status"},
			{"http", false, `HTTP status "503"`},
		} {
			t.Run(tt.service, func(t *testing.T) {
				r := check(t, grpccheck.Config{Target: addr, Service: tt.service, TLS: secure != nil, Authority: "health.example"})
				if r.OK != tt.ok || r.LocalFault || !strings.Contains(r.Detail, tt.detail) {
					t.Errorf("%+v, want OK %v, %q", r, tt.ok, tt.detail)
				}
			})
		}
	}
}

// TestOtherServers: those that speak something else say so in the detail.
func TestOtherServers(t *testing.T) {
	for name, tt := range map[string]struct {
		says, detail string
		tls          bool
	}{
		"HTTP/1":    {"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak HTTP/2 on this port", false},
		"SSH":       {"SSH-2.0-OpenSSH_9.2\r\n", `"SSH-2.0-O"`, false},
		"no TLS":    {"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS on this port", true},
		"goes away": {"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x0b\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0bbye", "ENHANCE_YOUR_CALM", false},
		"resets":    {"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x07", "REFUSED_STREAM", false},
		"large":     {"\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00\x00\x01", "a frame of 16777215 bytes", false},
		"ends":      {"\x00\x00\x00\x04\x00\x00\x00\x00\x00", "closed the connection", false},
	} {
		t.Run(name, func(t *testing.T) {
			addr := checktest.Serve(t, nil, func(conn net.Conn) {
				_, _ = io.WriteString(conn, tt.says)
				_, _ = conn.Read(make([]byte, 4096))
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn)
			})
			if r := check(t, grpccheck.Config{Target: addr, TLS: tt.tls}); r.OK || !strings.Contains(r.Detail, tt.detail) {
				t.Errorf("%+v, want %q", r, tt.detail)
			}
		})
	}
}

// TestNoHTTP2InTLS: a server that does not agree to HTTP/2.
func TestNoHTTP2InTLS(t *testing.T) {
	addr := checktest.Serve(t, checktest.TLSConfig(t, "localhost"), func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	if r := check(t, grpccheck.Config{Target: addr, TLS: true}); r.OK || !strings.Contains(r.Detail, "does not agree to HTTP/2") {
		t.Errorf("%+v", r)
	}
}

func TestConformance(t *testing.T) {
	checktest.Conformance(t, func(addr netip.AddrPort) healthcheck.Checker {
		c, err := grpccheck.New(grpccheck.Config{Target: addr})
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

func TestConformanceTLS(t *testing.T) {
	checktest.ConformanceTLS(t, func(addr netip.AddrPort) healthcheck.Checker {
		c, err := grpccheck.New(grpccheck.Config{Target: addr, TLS: true, ServerName: "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

func TestKeyTellsChecksApart(t *testing.T) {
	base := grpccheck.Config{Target: netip.MustParseAddrPort("10.0.0.1:80")}
	with := func(f func(*grpccheck.Config)) grpccheck.Config { c := base; f(&c); return c }
	seen := map[string]bool{}
	for _, c := range []grpccheck.Config{
		base,
		with(func(c *grpccheck.Config) { c.Target = netip.MustParseAddrPort("10.0.0.1:81") }),
		with(func(c *grpccheck.Config) { c.Source.Mark = 1 }),
		with(func(c *grpccheck.Config) { c.Service = "a" }),
		with(func(c *grpccheck.Config) { c.TLS = true }),
		with(func(c *grpccheck.Config) { c.TLS, c.ServerName = true, "a" }),
		with(func(c *grpccheck.Config) { c.Authority = "a" }),
	} {
		if seen[c.Key()] {
			t.Errorf("key %q is not its own", c.Key())
		}
		seen[c.Key()] = true
	}
	if _, err := grpccheck.New(grpccheck.Config{}); err == nil {
		t.Error("no target was accepted")
	}
}
