package conf

import (
	"os"
	"strings"
	"testing"
)

func readPEM(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/good/tls/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOpenKey: one key in each form that openssl writes comes out as the same key.
func TestOpenKey(t *testing.T) {
	pair := Trust{Certificate: readPEM(t, "client.pem")}
	for _, name := range []string{"client.key", "client.enc", "client.des3", "client.legacy"} {
		text := readPEM(t, name)
		key, err := openKey(pair.Certificate+text, "secret")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c, diags := loadText([]byte("[SSL]\ncertificate = \"\"\"\n" + pair.Certificate + "\"\"\"\nkey = \"\"\"\n" + key + "\"\"\"\n" +
			"[[virtual_server]]\naddress = \"203.0.113.1:443\"\nSSL_GET = { url = {} }\nreal_server = [{ address = \"10.0.0.1\" }]\n"))
		if c == nil {
			t.Errorf("%s: %s", name, diags.Text())
		} else if got := c.VirtualServers[0].RealServers[0].Checks[0].Trust; got.Key != key || strings.Contains(got.Key, "ENCRYPTED") {
			t.Errorf("%s: the check has the key %q", name, got.Key)
		}
		if name == "client.key" {
			continue
		}
		for password, want := range map[string]string{"": "it is encrypted", "wrong": "it is encrypted, and not with this password"} {
			if _, err := openKey(text, password); err == nil || err.Error() != want {
				t.Errorf("%s with %q: %v, want %s", name, password, err, want)
			}
		}
	}
	if _, err := openKey(pair.Certificate, ""); err != errNoKey {
		t.Errorf("a certificate for a key: %v", err)
	}
}

// FuzzOpenKey: no text, however wrong, does more than fail.
func FuzzOpenKey(f *testing.F) {
	for _, name := range []string{"client.key", "client.enc", "client.des3", "client.legacy", "ca.pem"} {
		f.Add(readPEM(f, name), "secret")
	}
	f.Fuzz(func(t *testing.T, text, password string) {
		key, err := openKey(text, password)
		if (err == nil) != strings.Contains(key, "PRIVATE KEY-----") {
			t.Fatalf("%q, %v", key, err)
		}
	})
}
