package httpcheck

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Trust is the SSL block: the certificates on both sides, as PEM. The zero value
// believes every server and shows no certificate.
type Trust struct {
	CA          string // authorities that must have signed the server's certificate; "": none is verified
	Certificate string // that vipd shows, with its chain; "": none
	Key         string // its private key, not encrypted
}

// key names it in the identity of a check.
func (t Trust) key() string {
	if t == (Trust{}) {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{t.CA, t.Certificate, t.Key}))
	return fmt.Sprintf(" trust %x", sum[:8])
}

// tlsConfig is for asking whether the server answers. Who it is matters only with a
// CA; old versions and ciphers that a backend may still have are accepted, as
// keepalived does.
func (c Config) tlsConfig(u URL) (*tls.Config, error) {
	var suites []uint16
	for _, list := range [][]*tls.CipherSuite{tls.CipherSuites(), tls.InsecureCipherSuites()} {
		for _, suite := range list {
			suites = append(suites, suite.ID)
		}
	}
	out := &tls.Config{
		InsecureSkipVerify: true, // #nosec G402 -- see above
		ServerName:         c.sentName(u),
		MinVersion:         tls.VersionTLS10,
		CipherSuites:       suites,
	}
	if c.Trust.CA != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(c.Trust.CA)) {
			return nil, errors.New("the ca holds no certificate")
		}
		name := c.verifiedName(u)
		out.VerifyConnection = func(s tls.ConnectionState) error { return verify(s, roots, name) }
	}
	if c.Trust.Certificate != "" || c.Trust.Key != "" {
		own, err := tls.X509KeyPair([]byte(c.Trust.Certificate), []byte(c.Trust.Key))
		if err != nil {
			return nil, fmt.Errorf("certificate and key: %w", err)
		}
		out.Certificates = []tls.Certificate{own}
	}
	return out, nil
}

// verifiedName is the name that a verified certificate must be for; "": any, since
// servers are named here by address and their certificates mostly are not.
func (c Config) verifiedName(u URL) string {
	return cmp.Or(c.sentName(u), u.VirtualHost, c.VirtualHost)
}

// sentName is the name that u sends; "": none.
func (c Config) sentName(u URL) string { return cmp.Or(u.ServerName, c.ServerName) }

// verify checks the server's certificates against the authorities. It stands in for
// what tls does itself only together with sending the name.
func verify(s tls.ConnectionState, roots *x509.CertPool, name string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	chain := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		chain.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: chain, DNSName: name})
	return err
}
