package grpccheck

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// line is a connection on which a server says something and ends.
type line struct {
	io.Reader
	bytes.Buffer // what the client writes
}

func (l *line) Read(b []byte) (int, error) { return l.Reader.Read(b) }

func says(frames ...[]byte) *line { return &line{Reader: bytes.NewReader(bytes.Join(frames, nil))} }

// fields encodes a block.
func fields(list ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(list); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return b.Bytes()
}

func settings() []byte { return appendFrame(nil, frameSettings, 0, 0, nil) }

// TestFrames: what servers may send between the settings and the end of the stream.
func TestFrames(t *testing.T) {
	head, tail := fields(":status", "200"), fields("grpc-status", "0")
	good := []byte{0, 0, 0, 0, 2, 8, 1}
	padded := append(append([]byte{3}, good...), 0, 0, 0)
	end := appendFrame(nil, frameHeaders, flagEndHeaders|flagEndStream, stream, tail)
	begin := appendFrame(nil, frameHeaders, flagEndHeaders, stream, head)
	data := appendFrame(nil, frameData, 0, stream, good)
	for name, tt := range map[string]struct {
		frames [][]byte
		err    error
	}{
		"plain":                 {[][]byte{begin, data, end}, nil},
		"the end with the data": {[][]byte{appendFrame(nil, frameHeaders, flagEndHeaders, stream, fields(":status", "200", "grpc-status", "0")), appendFrame(nil, frameData, flagEndStream, stream, good)}, nil},
		"padding":               {[][]byte{begin, appendFrame(nil, frameData, flagPadded, stream, padded), end}, nil},
		"too much padding":      {[][]byte{begin, appendFrame(nil, frameData, flagPadded, stream, []byte{9, 1})}, errProtocol},
		"priority":              {[][]byte{appendFrame(nil, frameHeaders, flagEndHeaders|flagPriority, stream, append(make([]byte, 5), head...)), data, end}, nil},
		"data in two":           {[][]byte{begin, appendFrame(nil, frameData, 0, stream, good[:3]), appendFrame(nil, frameData, 0, stream, good[3:]), end}, nil},
		"a block in three": {[][]byte{appendFrame(nil, frameHeaders, 0, stream, head[:0]), appendFrame(nil, frameContinuation, 0, stream, head[:1]),
			appendFrame(nil, frameContinuation, flagEndHeaders, stream, head[1:]), data, end}, nil},
		"a block that is broken into": {[][]byte{appendFrame(nil, frameHeaders, 0, stream, head), data}, errProtocol},
		"a block of no end":           {append([][]byte{appendFrame(nil, frameHeaders, 0, stream, head)}, repeated(20, appendFrame(nil, frameContinuation, 0, stream, make([]byte, frameMax)))...), errLarge},
		"a block of nonsense":         {[][]byte{appendFrame(nil, frameHeaders, flagEndHeaders, stream, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0x0f})}, errProtocol},
		"other streams and kinds":     {[][]byte{appendFrame(nil, frameHeaders, flagEndHeaders, 3, []byte{0xff}), appendFrame(nil, 0x42, 0xff, stream, []byte{1}), begin, data, end}, nil},
		"window updates":              {[][]byte{appendFrame(nil, 8, 0, 0, make([]byte, 4)), begin, appendFrame(nil, 8, 0, stream, make([]byte, 4)), data, end}, nil},
		"an orderly end is announced": {[][]byte{appendFrame(nil, frameGoAway, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0}), begin, data, appendFrame(nil, frameGoAway, 0, 0, []byte{0, 0, 0, 1, 0, 0, 0, 0}), end}, nil},
		"and nothing comes":           {[][]byte{appendFrame(nil, frameGoAway, 0, 0, []byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0})}, io.EOF},
		"a push":                      {[][]byte{appendFrame(nil, framePush, flagEndHeaders, stream, make([]byte, 4))}, errProtocol},
		"a large answer":              {append([][]byte{begin}, repeated(5, appendFrame(nil, frameData, 0, stream, make([]byte, frameMax)))...), errLarge},
		"pings without end":           {repeated(40000, appendFrame(nil, framePing, 0, 0, make([]byte, 8))), errLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(says(append([][]byte{settings()}, tt.frames...)...))
			answer, err := s.answer()
			if tt.err != nil {
				if !errors.Is(err, tt.err) {
					t.Errorf("%v, want %v", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if status, err := answer.judge(); err != nil || status != serving {
				t.Errorf("%v, %v", status, err)
			}
		})
	}
}

func repeated(n int, b []byte) (out [][]byte) {
	for range n {
		out = append(out, b)
	}
	return out
}

// TestAcknowledged: settings and pings get their answers.
func TestAcknowledged(t *testing.T) {
	l := says(settings(), appendFrame(nil, framePing, 0, 0, []byte("12345678")), appendFrame(nil, framePing, flagAck, 0, make([]byte, 8)))
	if _, err := newSession(l).answer(); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	want := append(appendFrame(nil, frameSettings, flagAck, 0, nil), appendFrame(nil, framePing, flagAck, 0, []byte("12345678"))...)
	if !bytes.Equal(l.Bytes(), want) {
		t.Errorf("sent %x, want %x", l.Bytes(), want)
	}
}

// FuzzAnswer: whatever a server sends, reading it ends, within the bounds.
func FuzzAnswer(f *testing.F) {
	f.Add(bytes.Join([][]byte{settings(), appendFrame(nil, frameHeaders, flagEndHeaders, stream, fields(":status", "200")),
		appendFrame(nil, frameData, 0, stream, []byte{0, 0, 0, 0, 2, 8, 1}), appendFrame(nil, frameHeaders, 5, stream, fields("grpc-status", "0"))}, nil))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	f.Add(appendFrame(settings(), frameHeaders, flagPadded|flagPriority, stream, []byte{200}))
	f.Fuzz(func(t *testing.T, sent []byte) {
		s := newSession(says(sent))
		answer, err := s.answer()
		if len(s.reply.body) > bodyMax || s.read > inputMax+frameMax {
			t.Fatalf("%d bytes of body, %d read", len(s.reply.body), s.read)
		}
		if err == nil {
			_, _ = answer.judge()
		}
	})
}

// FuzzResponse: a message is read or refused; what skip drops is never more than there is.
func FuzzResponse(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 8, 1})
	f.Add([]byte{0, 0, 0, 0, 11, 0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add(request("a.b.C"))
	f.Fuzz(func(t *testing.T, message []byte) {
		status, err := response(message)
		if err != nil && status != unknown {
			t.Errorf("%v with %v", status, err)
		}
		if err == nil && len(message) < prefixLength {
			t.Errorf("%x was taken", message)
		}
	})
}
