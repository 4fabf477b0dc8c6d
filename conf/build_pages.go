package conf

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/miekg/dns"
)

// pages settles what is special to HTTP_GET and SSL_GET.
func (b *builder) pages(c, r, v *values, k *Check) {
	k.HTTPProtocol = get[string](c, "http_protocol")
	if !get[bool](c, "fast_recovery") && !c.wrong("fast_recovery") {
		b.say(Warning, c, "fast_recovery", c.block.name+".fast_recovery/always", "recovery is always fast", "a server is back with the first check that finds all its pages well; take the line out")
	}
	k.VirtualHost = get[string](inherit("virtualhost", c, r, v), "virtualhost")
	if k.Kind == "SSL_GET" {
		k.SNI = get[string](c, "sni_name")
		k.EnableSNI = get[bool](c, "enable_sni") && !c.given("sni_name")
		k.Trust = b.ssl
		if c.given("SSL") {
			k.Trust = b.trust(get[*values](c, "SSL"))
		}
	}
	nameless := false
	for _, u := range get[[]*values](c, "url") {
		url := URL{
			Path:        get[string](u, "path"),
			Digest:      get[string](u, "digest"),
			StatusCodes: get[[]StatusRange](u, "status_code"),
			VirtualHost: get[string](u, "virtualhost"),
		}
		if url.VirtualHost == "" {
			url.VirtualHost = k.VirtualHost
		}
		if url.StatusCodes == nil {
			url.StatusCodes = []StatusRange{{200, 299}}
		}
		if k.EnableSNI && url.VirtualHost == "" && !u.wrong("virtualhost") && !c.wrong("virtualhost") && !nameless {
			nameless = true
			b.say(Error, c, "enable_sni", "SSL_GET.enable_sni/name", "there is no name to send", "add sni_name or virtualhost to the check, or virtualhost to each url")
		}
		b.regex(u, &url)
		b.compliant(c, u, k.Kind == "SSL_GET", &url)
		k.URLs = append(k.URLs, url)
	}
}

// regex settles what the body must match.
func (b *builder) regex(u *values, url *URL) {
	url.Regex = get[string](u, "regex")
	url.RegexNoMatch, url.RegexOptions = get[bool](u, "regex_no_match"), get[[]string](u, "regex_options")
	url.RegexMin, url.RegexMax = u.num("regex_min_offset"), u.num("regex_max_offset")
	if !u.given("regex") {
		for _, name := range []string{"regex_no_match", "regex_options", "regex_min_offset", "regex_max_offset"} {
			if u.given(name) {
				b.say(Warning, u, name, "url.regex/missing", "has no effect without regex", "add regex, or take it out")
				break
			}
		}
		url.RegexNoMatch, url.RegexOptions, url.RegexMin, url.RegexMax = false, nil, 0, 0
		return
	}
	if _, err := syntax.Parse(url.Regex, syntax.Perl); err != nil {
		b.say(Error, u, "regex", "url.regex/re2", strings.TrimPrefix(err.Error(), "error parsing regexp: "), "vipd has RE2, which does without look-around, back-references, atomic groups and possessive quantifiers: https://github.com/google/re2/wiki/Syntax")
	}
	if url.RegexMax != 0 && url.RegexMax < url.RegexMin {
		b.say(Error, u, "regex_max_offset", "url.regex_max_offset/below", fmt.Sprintf("%d is below regex_min_offset %d", url.RegexMax, url.RegexMin), "nothing can match there; raise it, or leave it out")
	}
}

// compliant settles tls_compliant of a page.
func (b *builder) compliant(c, u *values, secure bool, url *URL) {
	switch {
	case !secure && u.has("tls_compliant"):
		b.say(Warning, u, "tls_compliant", "url.tls_compliant/plain", "has no meaning for HTTP_GET", "it is about TLS; take it out")
	case secure && u.has("tls_compliant"):
		url.Compliant = get[bool](u, "tls_compliant")
	case secure:
		url.Compliant = get[bool](c, "tls_compliant")
	}
}

// trust settles certificates. The table may be that of many servers.
func (b *builder) trust(s *values) Trust {
	if s == nil {
		return Trust{}
	}
	t, known := b.trusts[s]
	if !known {
		t = b.certificates(s)
		b.trusts[s] = t
	}
	return t
}

// certificates reads the files of an SSL table.
func (b *builder) certificates(s *values) Trust {
	t := Trust{CA: get[string](s, "ca"), Certificate: get[string](s, "certificate")}
	if s.has("ca") && !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA)) {
		b.say(Error, s, "ca", "SSL.ca/certificate", "there is no certificate in it", "it must hold the certificates of the authorities, as PEM")
	}
	switch key := get[string](s, "key"); {
	case s.given("certificate") != s.given("key"):
		there, lacks := "certificate", "key"
		if s.given("key") {
			there, lacks = lacks, there
		}
		b.say(Error, s, there, "SSL.key/both", "there is no "+lacks, "a certificate and its key go together: add "+lacks)
	case s.has("key") && s.has("certificate"):
		var err error
		if t.Key, err = openKey(key, get[string](s, "password")); err != nil {
			b.say(Error, s, "key", "SSL.key/open", err.Error(), "it must hold the private key of the certificate, as PEM, and password must be that of the key")
			return t
		}
		if _, err := tls.X509KeyPair([]byte(t.Certificate), []byte(t.Key)); err != nil {
			b.say(Error, s, "certificate", "SSL.certificate/pair", strings.TrimPrefix(err.Error(), "tls: "), "certificate and key must belong together")
		}
	}
	return t
}

// question settles what is special to DNS_CHECK.
func (b *builder) question(c, _, _ *values, k *Check) {
	k.DNS = Question{
		Type: get[string](c, "type"), Name: dns.Fqdn(get[string](c, "name")), Protocol: get[string](c, "protocol"), Answer: get[[]string](c, "answer"),
	}
	for _, text := range k.DNS.Answer {
		if rr, err := dns.NewRR(". 0 IN " + k.DNS.Type + " " + text); err != nil || rr == nil {
			b.say(Error, c, "answer", "DNS_CHECK.answer/record", fmt.Sprintf("%q is no record of type %s", text, k.DNS.Type), "write what a zone file has after the type; names end with a dot")
		}
	}
}
