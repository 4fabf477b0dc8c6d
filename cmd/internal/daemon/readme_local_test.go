package daemon

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"vipd/vrrp/track"
)

// exampleMachine has the track file of the manual pages.
func exampleMachine() *machine {
	m := newMachine()
	m.read = func() []track.FileStatus { return []track.FileStatus{{Name: "load", Known: true}} }
	return m
}

// nowhere is the target of checks that connect to no port.
func nowhere(*testing.T) netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:0") }

// grpcServer says SERVING to everything.
func grpcServer(t *testing.T) netip.AddrPort {
	s := &http.Server{Protocols: &http.Protocols{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write([]byte{0, 0, 0, 0, 2, 8, 1})
		w.Header().Set("Grpc-Status", "0")
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
	return l.Addr().(*net.TCPAddr).AddrPort()
}
