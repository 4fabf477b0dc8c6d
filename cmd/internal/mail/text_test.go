package mail

import (
	"io"
	"mime"
	"net/mail"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The texts of the table are those that keepalived 2.2.7 sent to a relay.
func TestTexts(t *testing.T) {
	instance := func(group bool, state string) Message {
		m, ok := Instance("R1", group, map[bool]string{false: "VI_1", true: "G1"}[group], state, "")
		if !ok {
			t.Fatalf("%s is not mailed", state)
		}
		return m
	}
	const vs, rs = "[10.77.0.100]:tcp:80", "[127.0.0.1]:tcp:8081"
	for _, c := range []struct {
		m             Message
		subject, body string
	}{
		{instance(false, "MASTER"), "[R1] VRRP Instance VI_1 - Entering MASTER state", "=> VRRP Instance is now owning VRRP VIPs <="},
		{instance(false, "BACKUP"), "[R1] VRRP Instance VI_1 - Entering BACKUP state", "=> VRRP Instance is no longer owning VRRP VIPs <="},
		{instance(false, "FAULT"), "[R1] VRRP Instance VI_1 - Entering FAULT state", "=> VRRP Instance is no longer owning VRRP VIPs <="},
		{instance(false, "DELETED"), "[R1] VRRP Instance VI_1 - Deleted", "=> VRRP Deleted at reload <="},
		{instance(true, "MASTER"), "[R1] VRRP Group G1 - Entering MASTER state", "=> All VRRP group instances are now in MASTER state <="},
		{instance(true, "BACKUP"), "[R1] VRRP Group G1 - Entering BACKUP state", "=> All VRRP group instances are now in BACKUP state <="},
		{instance(true, "FAULT"), "[R1] VRRP Group G1 - Entering FAULT state", "=> All VRRP group instances are now in FAULT state <="},
		{Service("R1", vs, true, true, 1, 2), "[R1] Virtualserver [10.77.0.100]:tcp:80 - UP", "=> Starting with quorum up 1+0=1 <= 2 <="},
		{Service("R1", vs, false, false, 2, 1), "[R1] Virtualserver [10.77.0.100]:tcp:80 - DOWN", "=> Lost quorum 2+0=2 <= 1 <="},
		{Service("R1", vs, true, false, 1, 1), "[R1] Virtualserver [10.77.0.100]:tcp:80 - UP", "=> Gained quorum 1+0=1 <= 1 <="},
		{Server("R1", rs, vs, false, "TCP_CHECK", ""), "[R1] Realserver [127.0.0.1]:tcp:8081 of virtual server [10.77.0.100]:tcp:80 - DOWN", "=> TCP CHECK failed on service <="},
		{Server("R1", rs, vs, true, "TCP_CHECK", ""), "[R1] Realserver [127.0.0.1]:tcp:8081 of virtual server [10.77.0.100]:tcp:80 - UP", "=> TCP CHECK succeed on service <="},
		{Server("R1", rs, vs, true, "HTTP_GET", ""), "[R1] Realserver [127.0.0.1]:tcp:8081 of virtual server [10.77.0.100]:tcp:80 - UP", "=> CHECK succeed on service <="},
	} {
		equal(t, "subject", c.m.Subject, c.subject)
		equal(t, "body", c.m.Body, c.body+"\n")
	}
	if _, ok := Instance("R1", false, "VI_1", "MASTER_RX_LOWER_PRI", ""); ok {
		t.Error("an event that is no change of state is mailed")
	}
	m, _ := Instance("R1", false, "VI_1", "FAULT", "eth0 is down")
	equal(t, "body with a reason", m.Body, "=> VRRP Instance is no longer owning VRRP VIPs <=\n\neth0 is down\n")
}

// Whatever an instance, a router or a server is called and says, a mail has the
// headers that it should have, each once, and no others.
func TestNothingIsInjected(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		piece := rapid.SampledFrom([]string{"\r\n", "\n", "\r", "\x00", "\u2028", ".", "\r\n.\r\n", "Bcc: evil@x", ": ", " ", "日", "ä", "\xff", "=?utf-8?q?x?=", strings.Repeat("w", 600), "a"})
		text := func(what string) string { return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(r, what), "") }
		m, _ := Instance(text("router"), false, text("name"), "MASTER", text("reason"))
		l := letter{Message: m, at: time.Unix(1e9, 0), id: "id@x", all: []string{"a@x"}}
		b, err := l.compose("v@x")
		if err != nil {
			r.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\r\n") {
			if strings.ContainsAny(line, "\r\n\x00") || len(line) > oneLine {
				r.Fatalf("a line with a bare control character, or too long: %q", line)
			}
		}
		got, err := mail.ReadMessage(strings.NewReader(string(b)))
		if err != nil {
			r.Fatalf("%v in\n%s", err, b)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if err != nil || !strings.HasPrefix(subject, "[") || len([]rune(subject)) > subjectMax {
			r.Fatalf("subject %q: %v", subject, err)
		}
		for _, h := range []string{"Date", "From", "To", "Subject", "Message-Id", "X-Mailer", "Mime-Version", "Content-Type", "Content-Transfer-Encoding", "Auto-Submitted"} {
			if len(got.Header[h]) != 1 {
				r.Fatalf("%d headers %s in\n%s", len(got.Header[h]), h, b)
			}
			delete(got.Header, h)
		}
		if len(got.Header) > 0 {
			r.Fatalf("more headers: %v", got.Header)
		}
		if body, _ := io.ReadAll(got.Body); !strings.Contains(string(body), "owning VRRP VIPs") {
			r.Fatalf("the body is %q", body)
		}
	})
}
