package check

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"vipd/conf"
	"vipd/vrrp/host"
)

// eachCheck calls do for every check of the configuration.
func eachCheck(cfg *conf.Config, do func(service string, c *conf.Check)) {
	for i := range cfg.VirtualServers {
		v := &cfg.VirtualServers[i]
		for j := range v.RealServers {
			for k := range v.RealServers[j].Checks {
				do(v.Name, &v.RealServers[j].Checks[k])
			}
		}
	}
}

// sources looks for what checks are to come from: a server counts as down while
// that is not there. Each is said once, with the first service that has it.
func sources(cfg *conf.Config, state host.State) []string {
	var out []string
	said := map[string]bool{}
	eachCheck(cfg, func(service string, c *conf.Check) {
		iface, bind := c.BindIf, c.Bind.Addr()
		if iface != "" && state.Links[iface] == nil && !said[iface] {
			said[iface] = true
			out = append(out, fmt.Sprintf("virtual_server %s: bind_if %s does not exist here (there are: %s); servers whose checks leave by it count as down",
				service, iface, strings.Join(slices.Sorted(maps.Keys(state.Links)), ", ")))
		}
		if text := bind.String(); bind.IsValid() && !bind.IsUnspecified() && !here(bind, state) && !said[text] {
			said[text] = true
			out = append(out, fmt.Sprintf("virtual_server %s: bindto %s is on no interface here; servers whose checks come from it count as down", service, text))
		}
	})
	return out
}

// here reports whether a link has an address.
func here(a netip.Addr, state host.State) bool {
	for _, l := range state.Links {
		if slices.ContainsFunc(l.Addrs, func(own host.Addr) bool { return own.Prefix.Addr() == a }) {
			return true
		}
	}
	return false
}

// expiry warns of certificates of SSL_GET that are, or will soon be, out of date.
func expiry(cfg *conf.Config, now time.Time) []string {
	const soon = 14 * 24 * time.Hour
	var out []string
	said := map[string]bool{}
	look := func(key, text string) {
		if said[text] {
			return
		}
		said[text] = true
		for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				continue // a key
			}
			switch left := cert.NotAfter.Sub(now); {
			case left <= 0:
				out = append(out, fmt.Sprintf("SSL.%s: the certificate of %s is out of date since %s", key, cert.Subject, cert.NotAfter.UTC().Format(time.DateOnly)))
			case left < soon:
				out = append(out, fmt.Sprintf("SSL.%s: the certificate of %s will be out of date on %s", key, cert.Subject, cert.NotAfter.UTC().Format(time.DateOnly)))
			}
		}
	}
	eachCheck(cfg, func(_ string, c *conf.Check) {
		look("ca", c.Trust.CA)
		look("certificate", c.Trust.Certificate)
	})
	return out
}
