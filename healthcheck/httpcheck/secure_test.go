package httpcheck_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"vipd/healthcheck/checktest"
	"vipd/healthcheck/httpcheck"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pemOf("CERTIFICATE", der)
	return a
}

// sign makes a certificate and its key, as PEM, that ends after so long.
func (a *authority) sign(t *testing.T, lasts time.Duration, names ...string) (cert, key string) {
	t.Helper()
	own := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", private)
}

func pair(t *testing.T, cert, key string) tls.Certificate {
	t.Helper()
	p, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestVerification: with a CA the certificate must be signed by it, be valid, and be
// for the name that is known; without one nothing of that matters.
func TestVerification(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	serverOf := func(a *authority, lasts time.Duration, names ...string) *tls.Config {
		cert, key := a.sign(t, lasts, names...)
		return &tls.Config{Certificates: []tls.Certificate{pair(t, cert, key)}}
	}
	tests := []struct {
		name      string
		server    *tls.Config
		ca        string
		sni, host string
		ok        bool
		want      string
	}{
		{"signed, sni_name", serverOf(ours, time.Hour, "www.example.org"), ours.pem, "www.example.org", "", true, "GET /: status 200"},
		{"signed, virtualhost", serverOf(ours, time.Hour, "www.example.org"), ours.pem, "", "www.example.org", true, "GET /: status 200"},
		{"signed, no name known", serverOf(ours, time.Hour, "www.example.org"), ours.pem, "", "", true, "GET /: status 200"},
		{"for another name", serverOf(ours, time.Hour, "other.example.org"), ours.pem, "www.example.org", "", false, "certificate is valid for other.example.org, not www.example.org"},
		{"signed by others", serverOf(others, time.Hour, "www.example.org"), ours.pem, "www.example.org", "", false, "certificate signed by unknown authority"},
		{"out of date", serverOf(ours, -time.Minute, "www.example.org"), ours.pem, "www.example.org", "", false, "certificate has expired"},
		{"signed by others, nothing verified", serverOf(others, -time.Minute, "x"), "", "www.example.org", "", true, "GET /: status 200"},
		{"one of two authorities", serverOf(others, time.Hour, "www.example.org"), ours.pem + others.pem, "www.example.org", "", true, "GET /: status 200"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := checktest.Serve(t, tt.server, answer("HTTP/1.1 200 OK\r\n\r\n"))
			cfg := httpcheck.Config{Target: addr, TLS: true, ServerName: tt.sni, VirtualHost: tt.host, Trust: httpcheck.Trust{CA: tt.ca}, URLs: []httpcheck.URL{{}}}
			r := check(t, cfg, 5*time.Second)
			if r.OK != tt.ok || !strings.Contains(r.Detail, tt.want) || r.LocalFault {
				t.Errorf("got %+v, want %v %q", r, tt.ok, tt.want)
			}
		})
	}
}

// TestOddCertificate: a serial number below 0, which some appliances give themselves,
// matters to nobody who verifies nothing.
func TestOddCertificate(t *testing.T) {
	secure := checktest.TLSConfig(t, "www.example.org")
	der := secure.Certificates[0].Certificate[0]
	at := bytes.Index(der, []byte{0xa0, 3, 2, 1, 2, 2, 1, 1}) // version 3, serial number 1
	if at < 0 {
		t.Fatal("the certificate is built otherwise")
	}
	der[at+7] = 0x81
	addr := checktest.Serve(t, secure, answer("HTTP/1.1 200 OK\r\n\r\n"))
	if r := check(t, httpcheck.Config{Target: addr, TLS: true, URLs: []httpcheck.URL{{}}}, 5*time.Second); !r.OK {
		t.Errorf("%+v", r)
	}
}

// TestNames: each URL sends its own name, else that of all, else none; and a verified
// certificate is for that of the URL.
func TestNames(t *testing.T) {
	ours := newAuthority(t, "ours")
	cert, key := ours.sign(t, time.Hour, "one.example.org", "all.example.org")
	sent := make(chan string, 3)
	secure := &tls.Config{Certificates: []tls.Certificate{pair(t, cert, key)}}
	secure.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		sent <- hello.ServerName
		return nil, nil
	}
	addr := checktest.Serve(t, secure, answer("HTTP/1.1 200 OK\r\n\r\n"))
	urls := []httpcheck.URL{{ServerName: "one.example.org"}, {}, {VirtualHost: "one.example.org"}}
	for _, all := range []string{"all.example.org", ""} {
		r := check(t, httpcheck.Config{Target: addr, TLS: true, ServerName: all, VirtualHost: "all.example.org", Trust: httpcheck.Trust{CA: ours.pem}, URLs: urls}, 5*time.Second)
		if !r.OK {
			t.Fatalf("%+v", r)
		}
		for _, want := range []string{"one.example.org", all, all} {
			if got := <-sent; got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
		}
	}
	wrong := httpcheck.Config{Target: addr, TLS: true, VirtualHost: "all.example.org", Trust: httpcheck.Trust{CA: ours.pem}, URLs: []httpcheck.URL{{VirtualHost: "two.example.org"}}}
	if r := check(t, wrong, 5*time.Second); r.OK || !strings.Contains(r.Detail, "not two.example.org") {
		t.Errorf("a certificate for others: %+v", r)
	}
}

// TestClientCertificate: a server that asks for one gets it, in TLS 1.2 and 1.3.
func TestClientCertificate(t *testing.T) {
	ours := newAuthority(t, "ours")
	cert, key := ours.sign(t, time.Hour, "director")
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		secure := checktest.TLSConfig(t, "www.example.org")
		secure.ClientAuth, secure.ClientCAs = tls.RequireAndVerifyClientCert, roots
		secure.MinVersion, secure.MaxVersion = version, version
		addr := checktest.Serve(t, secure, answer("HTTP/1.1 200 OK\r\n\r\n"))
		cfg := httpcheck.Config{Target: addr, TLS: true, Trust: httpcheck.Trust{Certificate: cert, Key: key}, URLs: []httpcheck.URL{{}}}
		if r := check(t, cfg, 5*time.Second); !r.OK {
			t.Errorf("%s with the certificate: %+v", tls.VersionName(version), r)
		}
		cfg.Trust = httpcheck.Trust{}
		if r := check(t, cfg, 5*time.Second); r.OK || r.LocalFault || !strings.Contains(r.Detail, "remote error: tls: ") {
			t.Errorf("%s without: %+v", tls.VersionName(version), r)
		}
	}
}

// TestCompliant: a body without length may end with the connection, unless
// tls_compliant wants the close_notify before it.
func TestCompliant(t *testing.T) {
	secure := checktest.TLSConfig(t, "www.example.org")
	polite := func(c net.Conn) {
		answer("HTTP/1.1 200 OK\r\n\r\nhello")(c)
		_ = c.(*tls.Conn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
	rude := func(c net.Conn) {
		answer("HTTP/1.1 200 OK\r\n\r\nhello")(c)
		_ = c.(*tls.Conn).NetConn().(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
	sized := func(c net.Conn) {
		answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")(c)
		_ = c.(*tls.Conn).NetConn().(*net.TCPConn).CloseWrite()
	}
	const missing = "the connection ended without close_notify (tls_compliant)"
	for _, tt := range []struct {
		name  string
		serve func(net.Conn)
		url   httpcheck.URL
		want  string
	}{
		{"close_notify", polite, httpcheck.URL{Compliant: true, Digest: digest("hello")}, ""},
		{"none", rude, httpcheck.URL{Compliant: true, Digest: digest("hello")}, missing},
		{"none, and nobody looks at the body", rude, httpcheck.URL{Compliant: true}, missing},
		{"none, a regex", rude, httpcheck.URL{Compliant: true, Regex: httpcheck.Regex{Pattern: "hello"}}, missing},
		{"none, with a length", sized, httpcheck.URL{Compliant: true, Digest: digest("hello")}, ""},
		{"none, nobody minds", rude, httpcheck.URL{Digest: digest("hello")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := check(t, httpcheck.Config{Target: checktest.Serve(t, secure, tt.serve), TLS: true, URLs: []httpcheck.URL{tt.url}}, 5*time.Second)
			if r.OK != (tt.want == "") || !strings.Contains(r.Detail, tt.want) {
				t.Errorf("got %+v, want %q", r, tt.want)
			}
		})
	}
}

// TestRegexOfAPage: the body is judged as it is decoded, within its bounds.
func TestRegexOfAPage(t *testing.T) {
	chunked := answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nall\r\n6\r\n good\n\r\n0\r\n\r\n")
	url := func(r httpcheck.Regex) httpcheck.URL { return httpcheck.URL{Path: "/", Regex: r} }
	for _, tt := range []struct {
		name  string
		serve func(net.Conn)
		url   httpcheck.URL
		want  string // of the detail
		ok    bool
	}{
		{"found", chunked, url(httpcheck.Regex{Pattern: "^all good$"}), "GET /: status 200, body as wanted", true},
		{"not found", chunked, url(httpcheck.Regex{Pattern: "bad"}), `GET /: status 200, but nothing in the 9 bytes of the body matches "bad"`, false},
		{"no_match", chunked, url(httpcheck.Regex{Pattern: "good", NoMatch: true}), `GET /: status 200, but the body matches "good" at byte 4`, false},
		{"with a digest", chunked, httpcheck.URL{Digest: digest("all good\n"), Regex: httpcheck.Regex{Pattern: "good"}}, "GET /: status 200, digest as wanted, body as wanted", true},
		{"the status first", answer("HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\ngood"), url(httpcheck.Regex{Pattern: "good"}), "GET /: status 503, wanted 200-299", false},
		{"no body", answer("HTTP/1.1 204 No\r\n\r\n"), url(httpcheck.Regex{Pattern: "good"}), `GET /: status 204, but nothing in the 0 bytes of the body matches "good"`, false},
		{"too long", func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for block := strings.Repeat("x", 1<<16); ; {
				if _, err := io.WriteString(c, block); err != nil {
					return
				}
			}
		}, url(httpcheck.Regex{Pattern: "good"}), "GET /: status 200, but the body cannot be read: the body is longer than 4 MiB", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := check(t, httpcheck.Config{Target: checktest.Serve(t, nil, tt.serve), URLs: []httpcheck.URL{tt.url}}, 10*time.Second)
			if r.OK != tt.ok || r.Detail != tt.want || r.LocalFault {
				t.Errorf("got %+v\nwant %v %q", r, tt.ok, tt.want)
			}
		})
	}
}

func TestTrustRefused(t *testing.T) {
	ours := newAuthority(t, "ours")
	cert, _ := ours.sign(t, time.Hour, "a")
	_, key := ours.sign(t, time.Hour, "b")
	for _, tt := range []struct {
		trust httpcheck.Trust
		want  string
	}{
		{httpcheck.Trust{CA: "x"}, "making SSL_GET: the ca holds no certificate"},
		{httpcheck.Trust{Certificate: cert}, "making SSL_GET: certificate and key: "},
		{httpcheck.Trust{Certificate: cert, Key: key}, "making SSL_GET: certificate and key: tls: private key does not match public key"},
	} {
		cfg := httpcheck.Config{Target: checktest.Refused(t), TLS: true, Trust: tt.trust, URLs: []httpcheck.URL{{}}}
		if _, err := httpcheck.New(cfg); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}
