package lab

import (
	"bufio"
	"fmt"
	"net"
	"net/mail"
	"strings"
	"sync"
	"time"
)

// MailRelay is an SMTP server on a node that takes every mail. SetMode of the
// Server below makes it hang, reset or refuse connections.
type MailRelay struct {
	*Server

	mu    sync.Mutex
	mails []Mail
}

// Mail is one mail that the relay took.
type Mail struct {
	Helo, From string   // what the client said, without <>
	To         []string // the same
	Header     mail.Header
	Subject    string
	Body       string
	At         time.Time
}

// MailRelay starts a relay on a port of the node. It ends with the test.
func (n *Node) MailRelay(port uint16) *MailRelay {
	n.lab.t.Helper()
	r := &MailRelay{}
	r.Server = n.Serve(port, "relay")
	r.Handle(r.session)
	return r
}

// Mails are those that were taken so far, in order.
func (r *MailRelay) Mails() []Mail {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Mail(nil), r.mails...)
}

// session speaks SMTP with one client.
func (r *MailRelay) session(c net.Conn) {
	in := bufio.NewReader(c)
	say := func(s string) { _, _ = fmt.Fprint(c, s+"\r\n") } // a client that is gone hears nothing
	say("220 relay ESMTP")
	var m Mail
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, ":")
		switch strings.ToUpper(word) {
		case "MAIL FROM":
			rest, _, _ = strings.Cut(rest, " ")
			m = Mail{Helo: m.Helo, From: strings.Trim(rest, "<>")}
		case "RCPT TO":
			m.To = append(m.To, strings.Trim(rest, "<>"))
		case "DATA":
			say("354 go on")
			if !m.read(in) {
				return
			}
			r.mu.Lock()
			r.mails = append(r.mails, m)
			r.mu.Unlock()
		case "QUIT":
			say("221 bye")
			return
		default:
			if _, name, ok := strings.Cut(line, "LO "); ok {
				m.Helo = name
			}
		}
		say("250 ok")
	}
}

// read reads the text of a mail.
func (m *Mail) read(in *bufio.Reader) bool {
	var text strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return false
		}
		if line == ".\r\n" {
			break
		}
		text.WriteString(strings.TrimPrefix(line, "."))
	}
	m.At = time.Now()
	header, body, _ := strings.Cut(text.String(), "\r\n\r\n")
	m.Body = body
	if parsed, err := mail.ReadMessage(strings.NewReader(header + "\r\n\r\n")); err == nil {
		m.Header, m.Subject = parsed.Header, parsed.Header.Get("Subject")
	}
	return true
}
