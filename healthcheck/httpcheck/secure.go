package httpcheck

import (
	"crypto/tls"
	"io"
)

// tlsConfig is for asking whether the server answers, not who it is: no
// certificate is verified, and old versions and ciphers that a backend may
// still have are accepted, as keepalived does.
func tlsConfig(serverName string) *tls.Config {
	var suites []uint16
	for _, list := range [][]*tls.CipherSuite{tls.CipherSuites(), tls.InsecureCipherSuites()} {
		for _, suite := range list {
			suites = append(suites, suite.ID)
		}
	}
	return &tls.Config{
		InsecureSkipVerify: true, // #nosec G402 -- see above
		ServerName:         serverName,
		MinVersion:         tls.VersionTLS10,
		CipherSuites:       suites,
	}
}

// tolerant reads from a TLS session whose server may end it without saying
// close_notify. A body that says its length is not harmed: it is then too short.
type tolerant struct{ session *tls.Conn }

// Read implements io.Reader.
func (t tolerant) Read(b []byte) (int, error) {
	n, err := t.session.Read(b)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}
