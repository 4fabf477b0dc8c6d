package httpcheck

import "crypto/tls"

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
