package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

const (
	// replyMax is how much a relay may say on one connection.
	replyMax = 1 << 20
	// sessionMax is how many mails go over one connection.
	sessionMax = 100
	// oneLine is the longest line that may be sent without an encoding (RFC 5322 §2.1.1).
	oneLine = 998
)

// letter is a mail that waits.
type letter struct {
	Message
	at   time.Time // when it happened
	id   string    // Message-ID: the same in every attempt
	all  []string  // to whom it was written
	to   []string  // who has not got it yet
	next time.Time // not tried before
	wait time.Duration
	sent bool // somebody has got it
}

// refusal is an answer of the relay about one mail; the connection is good.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// final reports whether trying again is of no use (5yz, RFC 5321 §4.2.1).
func final(err error) bool {
	var reply *textproto.Error
	return errors.As(err, &reply) && reply.Code >= 500
}

// refused turns an answer to a command about one mail into a refusal; what ends
// the connection stays as it is.
func refused(err error) error {
	var reply *textproto.Error
	if errors.As(err, &reply) && reply.Code != 421 {
		return &refusal{err}
	}
	return err
}

// session is one connection to the relay.
type session struct {
	conn   net.Conn
	client *smtp.Client
	from   string
	limit  time.Duration // of each answer
	stop   func() bool
}

// dialer opens connections; net.Dialer is one.
type dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// open connects to the relay and greets it.
func open(ctx context.Context, d dialer, c Config) (*session, error) {
	timed, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	address := net.JoinHostPort(c.Server, strconv.Itoa(c.Port))
	conn, err := d.DialContext(timed, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the mail relay: %w", err)
	}
	s := &session{conn: &limited{Conn: conn, left: replyMax}, from: c.From, limit: c.Timeout}
	s.stop = context.AfterFunc(ctx, func() { conn.Close() })
	s.patience()
	if s.client, err = smtp.NewClient(s.conn, c.Server); err != nil {
		s.drop()
		return nil, fmt.Errorf("waiting for the greeting of the mail relay %s: %w", address, err)
	}
	s.client.SkipSMTPUTF8(true) // not needed, and not everybody on the way may have it
	s.patience()
	if err := s.client.Hello(c.Helo); err != nil {
		s.drop()
		return nil, fmt.Errorf("greeting the mail relay %s: %w", address, err)
	}
	return s, nil
}

// patience gives the relay its time for the next answer.
func (s *session) patience() { _ = s.conn.SetDeadline(time.Now().Add(s.limit)) }

// drop ends the connection without a word.
func (s *session) drop() {
	s.stop()
	s.conn.Close()
}

// close ends the connection.
func (s *session) close() {
	s.patience()
	_ = s.client.Quit() // all that matters is done
	s.drop()
}

// deliver hands one mail over. Whoever got it, or never will, is no longer in l.to;
// bad lists the latter. A *refusal is about this mail alone; after any other error
// the connection is of no more use.
func (s *session) deliver(l *letter) (bad []error, err error) {
	text, err := l.compose(s.from)
	if err != nil {
		l.to = nil
		return []error{err}, nil
	}
	defer func() {
		var r *refusal
		if errors.As(err, &r) {
			if reset := s.step("asking the mail relay for a new start", s.client.Reset); reset != nil {
				err = reset
			}
		}
	}()
	if err := s.step("sending mail from "+s.from, func() error { return s.client.Mail("<" + s.from + ">") }); err != nil {
		return l.giveUp(nil, l.to, err)
	}
	accepted, bad, later, err := s.address(l)
	if err != nil {
		return bad, err
	}
	if len(accepted) == 0 {
		if later == nil {
			later = &refusal{errors.New("the mail relay takes it for nobody")}
		}
		return bad, later
	}
	err = s.step("handing mail over", func() error {
		w, err := s.client.Data()
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		s.patience()
		return errors.Join(err, w.Close())
	})
	if err != nil {
		return l.giveUp(bad, accepted, err)
	}
	l.done(accepted...)
	l.sent = true
	return bad, later
}

// step does one thing that the relay answers to.
func (s *session) step(what string, f func() error) error {
	s.patience()
	if err := f(); err != nil {
		return fmt.Errorf("%s: %w", what, refused(err))
	}
	return nil
}

// address asks the relay for whom it takes the mail: for the accepted; bad are those that it never will take it for, later
// is why it does not for others. err is as that of deliver.
func (s *session) address(l *letter) (accepted []string, bad []error, later, err error) {
	for _, to := range slices.Clone(l.to) {
		err := s.step("sending mail to "+to, func() error { return s.client.Rcpt("<" + to + ">") })
		var r *refusal
		switch {
		case err == nil:
			accepted = append(accepted, to)
		case !errors.As(err, &r):
			return accepted, bad, later, err
		case final(err):
			bad = append(bad, err)
			l.done(to)
		default:
			later = err
		}
	}
	return accepted, bad, later, nil
}

// done takes out who needs no further attempt.
func (l *letter) done(to ...string) {
	l.to = slices.DeleteFunc(l.to, func(t string) bool { return slices.Contains(to, t) })
}

// giveUp is what follows from an error for some who should get the mail: when it is
// final they never will.
func (l *letter) giveUp(bad []error, to []string, err error) ([]error, error) {
	var r *refusal
	if errors.As(err, &r) && final(err) {
		l.done(to...)
		bad = append(bad, err)
	}
	return bad, err
}

// compose writes the mail as it goes over the wire.
func (l *letter) compose(from string) ([]byte, error) {
	body := cleanBody(l.Body)
	plain := !strings.ContainsFunc(body, func(r rune) bool { return r > 0x7e })
	for line := range strings.Lines(body) {
		plain = plain && len(line) < oneLine
	}
	encoding := gomail.EncodingQP
	if plain {
		encoding = gomail.NoEncoding
	}
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithEncoding(encoding))
	if err := m.From(from); err != nil {
		return nil, fmt.Errorf("writing a mail: %w", err)
	}
	if err := m.To(l.all...); err != nil {
		return nil, fmt.Errorf("writing a mail: %w", err)
	}
	m.Subject(clean(l.Subject))
	m.SetDateWithValue(l.at)
	m.SetMessageIDWithValue(l.id)
	m.SetGenHeader(gomail.HeaderXMailer, "vipd")
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, body)
	var out bytes.Buffer
	if _, err := m.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("writing a mail: %w", err)
	}
	return out.Bytes(), nil
}

// limited is a connection that reads no more than it must: a relay cannot fill the
// memory.
type limited struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the mail relay talks too much: %w", io.ErrUnexpectedEOF)
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
