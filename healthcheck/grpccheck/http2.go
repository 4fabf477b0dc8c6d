package grpccheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// Frames of HTTP/2 (RFC 9113 §6) and their flags.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePush         = 5
	framePing         = 6
	frameGoAway       = 7
	frameContinuation = 9

	flagAck        = 0x1 // of settings and pings
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	stream     = 1         // the only one
	noError    = 0         // error code of an orderly end
	frameMax   = 1 << 14   // bytes of a frame, as no setting of ours allows more
	headersMax = 64 << 10  // bytes of one block of fields
	bodyMax    = 64 << 10  // bytes of the answer; less than what the flow control allows at first
	inputMax   = 512 << 10 // bytes in all
)

// reply is what a server has answered on the stream.
type reply struct {
	fields map[string]string // of the header and the trailer; the later one counts
	body   []byte
}

// frame is one frame.
type frame struct {
	kind, flags byte
	id          uint32
	payload     []byte
}

func appendFrame(b []byte, kind, flags byte, id uint32, payload []byte) []byte {
	b = append(b, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	b = binary.BigEndian.AppendUint32(b, id)
	return append(b, payload...)
}

// question is all that a client sends to ask once: the preface, its settings, the
// header and the message. No server waits in between.
func question(scheme, authority string, message []byte) []byte {
	var fields bytes.Buffer
	encoder := hpack.NewEncoder(&fields)
	for _, f := range [][2]string{
		{":method", "POST"}, {":scheme", scheme}, {":path", "/grpc.health.v1.Health/Check"}, {":authority", authority},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"user-agent", "vipd"},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	b := []byte(preface)
	b = appendFrame(b, frameSettings, 0, 0, []byte{0, 2, 0, 0, 0, 0}) // no push
	b = appendFrame(b, frameHeaders, flagEndHeaders, stream, fields.Bytes())
	return appendFrame(b, frameData, flagEndStream, stream, message)
}

// session reads what a server sends on a connection.
type session struct {
	in      io.Reader
	out     io.Writer
	decoder *hpack.Decoder
	reply   reply
	read    int // bytes
	size    int // of all fields of the block that is read
}

func newSession(conn io.ReadWriter) *session {
	s := &session{in: conn, out: conn, reply: reply{fields: map[string]string{}}}
	s.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		s.size += len(f.Name) + len(f.Value)
		s.reply.fields[f.Name] = f.Value
	})
	s.decoder.SetMaxStringLength(headersMax)
	return s
}

var (
	errNotHTTP2 = errors.New("the server does not speak HTTP/2 on this port")
	errLarge    = errors.New("the answer is too large")
	errProtocol = errors.New("the server breaks the rules of HTTP/2")
)

// answer reads frames until the stream ends.
func (s *session) answer() (reply, error) {
	for {
		f, err := s.next()
		if err != nil {
			return reply{}, err
		}
		done, err := s.take(f)
		if err != nil || done {
			return s.reply, err
		}
	}
}

// next reads a frame.
func (s *session) next() (frame, error) {
	var head [9]byte
	n, err := io.ReadFull(s.in, head[:])
	if s.read == 0 && n > 0 && !s.settles(head[:n]) {
		return frame{}, fmt.Errorf("%w, it begins with %q", errNotHTTP2, head[:n])
	}
	s.read += n
	if err != nil {
		return frame{}, err
	}
	length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if length > frameMax {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", errProtocol, length)
	}
	if s.read += length; s.read > inputMax {
		return frame{}, errLarge
	}
	f := frame{kind: head[3], flags: head[4], id: binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload: make([]byte, length)}
	_, err = io.ReadFull(s.in, f.payload)
	return f, err
}

// settles reports whether these first bytes may be those of the settings with
// which every server begins.
func (s *session) settles(head []byte) bool {
	return head[0] == 0 && (len(head) < 4 || head[3] == frameSettings) && (len(head) < 9 || bytes.Equal(head[5:9], []byte{0, 0, 0, 0}))
}

// take acts on a frame; done says that the answer is complete.
func (s *session) take(f frame) (done bool, err error) {
	switch f.kind {
	case frameSettings:
		if f.flags&flagAck != 0 {
			return false, nil
		}
		return false, s.send(appendFrame(nil, frameSettings, flagAck, 0, nil))
	case framePing:
		if f.flags&flagAck != 0 || len(f.payload) != 8 {
			return false, nil
		}
		return false, s.send(appendFrame(nil, framePing, flagAck, 0, f.payload))
	case frameGoAway:
		return false, s.goAway(f.payload)
	case framePush, frameContinuation:
		return false, errProtocol
	}
	if f.id != stream {
		return false, nil // of no stream of ours, or of none
	}
	switch f.kind {
	case frameReset:
		if len(f.payload) != 4 {
			return false, errProtocol
		}
		return false, fmt.Errorf("the server ended the stream: %s", errorName(binary.BigEndian.Uint32(f.payload)))
	case frameHeaders:
		return f.flags&flagEndStream != 0, s.headers(f)
	case frameData:
		b, ok := f.unpad(0)
		if !ok {
			return false, errProtocol
		}
		if len(s.reply.body)+len(b) > bodyMax {
			return false, errLarge
		}
		s.reply.body = append(s.reply.body, b...)
		return f.flags&flagEndStream != 0, nil
	}
	return false, nil // a kind that is not known is nothing (RFC 9113 §5.5)
}

func (s *session) send(b []byte) error {
	_, err := s.out.Write(b)
	return err
}

// headers reads a block of fields, with the frames that continue it.
func (s *session) headers(f frame) error {
	extra := 0
	if f.flags&flagPriority != 0 {
		extra = 5
	}
	block, ok := f.unpad(extra)
	if !ok {
		return errProtocol
	}
	for f.flags&flagEndHeaders == 0 {
		var err error
		if f, err = s.next(); err != nil {
			return err
		}
		if f.kind != frameContinuation || f.id != stream {
			return errProtocol
		}
		if block = append(block, f.payload...); len(block) > headersMax {
			return errLarge
		}
	}
	s.size = 0
	if _, err := s.decoder.Write(block); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if err := s.decoder.Close(); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	if s.size > headersMax {
		return errLarge
	}
	return nil
}

// unpad takes off the padding, and so many bytes before the content.
func (f frame) unpad(extra int) ([]byte, bool) {
	b, pad := f.payload, 0
	if f.flags&flagPadded != 0 {
		if len(b) == 0 {
			return nil, false
		}
		pad, b = int(b[0]), b[1:]
	}
	if extra+pad > len(b) {
		return nil, false
	}
	return b[extra : len(b)-pad : len(b)-pad], true
}

// goAway is the error of a server that wants no more of the connection; one that only
// takes no further streams still answers ours (RFC 9113 §6.8).
func (s *session) goAway(payload []byte) error {
	if len(payload) < 8 {
		return errProtocol
	}
	if last := binary.BigEndian.Uint32(payload) &^ (1 << 31); binary.BigEndian.Uint32(payload[4:]) == noError && last >= stream {
		return nil
	}
	text := "the server ends the connection: " + errorName(binary.BigEndian.Uint32(payload[4:]))
	if len(payload) > 8 {
		text += fmt.Sprintf(" (%.100q)", payload[8:])
	}
	return errors.New(text)
}

// errorName is the name of an error code (RFC 9113 §7).
func errorName(code uint32) string {
	names := strings.Fields("NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR " +
		"REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED")
	if int64(code) < int64(len(names)) {
		return names[code]
	}
	return fmt.Sprintf("error %d", code)
}
