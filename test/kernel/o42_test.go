package kernel

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/md5"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// untidy is an HTTP server with bad manners, and whether it counts as healthy.
type untidy struct {
	name  string
	check string // the table in its real_server
	serve func(net.Conn)
	in    bool
}

const httpGet = "[virtual_server.real_server.HTTP_GET]\nurl = [{ path = \"/\" }]\n"

// request reads a request to its end.
func request(c net.Conn) {
	for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != ""; {
	}
}

// say answers a request with the text.
func say(text string) func(net.Conn) {
	return func(c net.Conn) {
		request(c)
		_, _ = io.WriteString(c, text)
	}
}

// reset ends a connection with RST.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	c.Close()
}

func untidyServers(withName, anyName *tls.Config) []untidy {
	digest := fmt.Sprintf("[virtual_server.real_server.HTTP_GET]\nurl = [{ path = \"/\", digest = \"%x\" }]\n", md5.Sum([]byte("hello")))
	secure := func(more string) string {
		return "[virtual_server.real_server.SSL_GET]\nurl = [{ path = \"/\" }]\n" + more
	}
	return []untidy{
		{"replies and resets", httpGet, func(c net.Conn) { say("HTTP/1.0 200 OK\r\n\r\nhello")(c); reset(c) }, true},
		{"no length", httpGet, say("HTTP/1.0 200 OK\r\nServer: x\r\n\r\nhello"), true},
		{"chunked", httpGet, say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), true},
		{"100 first", httpGet, say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), true},
		{"does not wait for the request", httpGet, func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nhello")
			time.Sleep(20 * time.Millisecond)
			reset(c)
		}, true},
		{"body never comes", httpGet, func(c net.Conn) {
			say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")(c)
			_, _ = io.Copy(io.Discard, c)
		}, true},
		{"bare line feeds, no reason", httpGet, say("HTTP/1.0 200\nServer: x\n\nhello"), true},
		{"digest without length", digest, say("HTTP/1.0 200 OK\r\n\r\nhello"), true},
		{"digest in chunks", digest, say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), true},
		{"TLS with the name", secure("sni_name = \"www.example.org\"\nenable_sni = true\n"), overTLS(withName), true},
		{"TLS without a name", secure(""), overTLS(anyName), true},

		// The twins that are not healthy.
		{"503", httpGet, say("HTTP/1.0 503 Busy\r\n\r\nhello"), false},
		{"resets in the header", httpGet, func(c net.Conn) { say("HTTP/1.0 200 OK\r\nServer: ")(c); reset(c) }, false},
		{"another digest", digest, say("HTTP/1.0 200 OK\r\n\r\nhallo"), false},
		{"drips for ever", httpGet, drip, false},
		{"TLS needs a name, gets none", secure(""), overTLS(withName), false},
	}
}

// drip sends one byte of a header now and then.
func drip(c net.Conn) {
	request(c)
	_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\nX: ")
	for range 100 {
		if _, err := io.WriteString(c, "x"); err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// overTLS answers inside TLS.
func overTLS(config *tls.Config) func(net.Conn) {
	return func(c net.Conn) {
		s := tls.Server(c, config)
		say("HTTP/1.0 200 OK\r\n\r\nhello")(s)
		_ = s.Close() // the client may be gone
	}
}

// O42: replies that are valid though untidy pass, whatever the server does
// after the header; a TLS server that needs a name gets it. What is really wrong
// still fails. Every check goes on.
func TestO42UntidyReplies(t *testing.T) {
	t.Parallel()
	withName, anyName := certificates(t)
	list := untidyServers(withName, anyName)
	s := newSite(t, 1)
	d, r := s.d[0], s.r[0]
	config := "[[virtual_server]]\naddress = \"10.9.0.100:80\"\nlvs_sched = \"rr\"\nlvs_method = \"NAT\"\n" + timing +
		"connect_timeout = 2\n"
	config = strings.Replace(config, "connect_timeout = \"700ms\"\n", "", 1)
	var running []*lab.Server
	in, all := map[string]int{}, map[string]int{}
	for i, u := range list {
		port := uint16(7001 + i)
		srv := r.Serve(port, u.name)
		srv.Handle(u.serve)
		running = append(running, srv)
		address := fmt.Sprintf("10.9.0.11:%d", port)
		config += fmt.Sprintf("[[virtual_server.real_server]]\naddress = %q\ndelay_before_retry = \"100ms\"\n%s", address, u.check)
		all[address] = 1
		if u.in {
			in[address] = 1
		}
	}
	s.start(alone(config))
	d.WaitWeights(20*time.Second, "TCP 10.9.0.100:80", in)
	before := make([]int, len(running))
	for i, srv := range running {
		before[i] = srv.AcceptedFrom(d.Addr())
	}
	began := time.Now()
	s.Eventually(10*time.Second, "every server is checked twice more", func() bool {
		for i, srv := range running {
			if srv.AcceptedFrom(d.Addr())-before[i] < 2 {
				return false
			}
		}
		return true
	})
	time.Sleep(time.Until(began.Add(2 * time.Second)))
	d.WaitWeights(5*time.Second, "TCP 10.9.0.100:80", in)
	// Manners that come back: all in.
	for _, srv := range running {
		if srv.Name != list[len(list)-1].name {
			srv.Handle(say("HTTP/1.0 200 OK\r\n\r\nhello"))
		}
	}
	for i, u := range list {
		if strings.HasPrefix(u.name, "TLS") {
			running[i].Handle(overTLS(anyName))
		}
	}
	d.WaitWeights(10*time.Second, "TCP 10.9.0.100:80", all)
}

// certificates makes a self-signed certificate and two servers' settings: one
// insists on the name in the handshake.
func certificates(t *testing.T) (withName, anyName *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"www.example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	anyName = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	withName = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if h.ServerName != "www.example.org" {
			return nil, errors.New("no certificate for " + h.ServerName)
		}
		return anyName, nil
	}}
	return withName, anyName
}
