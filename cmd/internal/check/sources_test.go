package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/netip"
	"slices"
	"testing"
	"time"

	"vipd/conf"
	"vipd/vrrp/host"
)

func withChecks(checks ...conf.Check) *conf.Config {
	return &conf.Config{VirtualServers: []conf.VirtualServer{{Name: "web", RealServers: []conf.RealServer{{Checks: checks}}}}}
}

// TestSources: interfaces and addresses of checks that are not here are said once.
func TestSources(t *testing.T) {
	state := host.State{Links: map[string]*host.Link{"eth0": {Name: "eth0", Addrs: []host.Addr{{Prefix: netip.MustParsePrefix("10.9.0.1/24")}}}}}
	bind := func(a string) netip.AddrPort { return netip.MustParseAddrPort(a) }
	got := sources(withChecks(conf.Check{BindIf: "eth0"}, conf.Check{BindIf: "eth9"}, conf.Check{BindIf: "eth9"}, conf.Check{},
		conf.Check{Bind: bind("10.9.0.1:0")}, conf.Check{Bind: bind("0.0.0.0:99")}, conf.Check{Bind: bind("10.9.0.2:0")}), state)
	want := []string{
		"virtual_server web: bind_if eth9 does not exist here (there are: eth0); servers whose checks leave by it count as down",
		"virtual_server web: bindto 10.9.0.2 is on no interface here; servers whose checks come from it count as down",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestExpiry: certificates that are or will soon be out of date are named, once.
func TestExpiry(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := func(name string, end time.Time) string {
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	trust := conf.Trust{CA: cert("good", now.AddDate(0, 1, 0)) + cert("old", now.AddDate(0, 0, -1)), Certificate: cert("soon", now.AddDate(0, 0, 3))}
	got := expiry(withChecks(conf.Check{Trust: trust}, conf.Check{Trust: trust}, conf.Check{}), now)
	want := []string{"SSL.ca: the certificate of CN=old is out of date since 2026-04-30", "SSL.certificate: the certificate of CN=soon will be out of date on 2026-05-04"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
