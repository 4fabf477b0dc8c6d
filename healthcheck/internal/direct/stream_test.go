package direct

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// peer is a server that echoes what comes in order, sends each byte again until it
// is acknowledged, and ends after all.
type peer struct {
	seq, acked, expected uint32
	started              bool
	got, sent            []byte
	want                 int // bytes after which it ends
	window               uint16
}

// take answers a segment of the client.
func (p *peer) take(in segment) (out []segment) {
	if in.flags&flagSYN != 0 {
		p.started, p.expected, p.acked = true, in.seq+1, p.seq+1
		return []segment{{seq: p.seq, ack: p.expected, flags: flagSYN | flagACK, window: p.window, mss: 100}}
	}
	if !p.started || in.flags&flagACK == 0 {
		return nil
	}
	if after(in.ack, p.acked) {
		p.acked = in.ack
	}
	if in.seq == p.expected && len(in.data) > 0 {
		p.got = append(p.got, in.data...)
		p.sent = p.got
		p.expected += uint32(len(in.data))
	}
	return p.pending(len(in.data) > 0)
}

// pending are the bytes that the client has not acknowledged.
func (p *peer) pending(answer bool) (out []segment) {
	done := int(p.acked - p.seq - 1)
	for at := done; at < len(p.sent); at += 70 {
		out = append(out, segment{seq: p.seq + 1 + uint32(at), ack: p.expected, flags: flagACK, window: p.window, data: p.sent[at:min(at+70, len(p.sent))]})
	}
	if len(p.got) >= p.want && done <= len(p.sent) {
		out = append(out, segment{seq: p.seq + 1 + uint32(len(p.sent)), ack: p.expected, flags: flagACK | flagFIN, window: p.window})
	}
	if len(out) == 0 && answer {
		out = []segment{{seq: p.acked, ack: p.expected, flags: flagACK, window: p.window}}
	}
	return out
}

// TestEcho: through a network that loses, repeats and swaps segments every byte
// arrives once and in order, both ways.
func TestEcho(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		question := rapid.SliceOfN(rapid.Byte(), 1, 1000).Draw(t, "question")
		p := &peer{seq: rapid.Uint32().Draw(t, "peer's first"), want: len(question), window: uint16(rapid.IntRange(1, 2000).Draw(t, "window"))}
		var s stream
		now := time.Unix(0, 0)
		toPeer, toClient := []segment{s.begin(now, rapid.Uint32().Draw(t, "first"))}, []segment(nil)
		written := false
		var answer []byte
		for round := 0; ; round++ {
			if round > 3000 {
				t.Fatalf("no end: %d bytes there, %d back, %+v", len(p.got), len(answer), s)
			}
			quiet := round > 200 // the network gets well
			next := func(list []segment) []segment {
				var out []segment
				for _, x := range list {
					switch rapid.IntRange(0, 9).Draw(t, "fate") {
					case 0:
						if quiet {
							out = append(out, x)
						}
					case 1:
						out = append(out, x, x)
					case 2:
						out = append([]segment{x}, out...)
					default:
						out = append(out, x)
					}
				}
				return out
			}
			for _, x := range next(toPeer) {
				toClient = append(toClient, p.take(x)...)
			}
			toPeer = nil
			for _, x := range next(toClient) {
				toPeer = append(toPeer, s.take(now, x)...)
			}
			toClient = nil
			if s.state == open && !written {
				written = true
				toPeer = append(toPeer, s.write(now, question)...)
			}
			b := make([]byte, 64)
			n, err := s.read(b)
			if answer = append(answer, b[:n]...); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			now = now.Add(100 * time.Millisecond)
			toPeer = append(toPeer, s.expire(now)...)
			if p.started && round%5 == 4 {
				toClient = append(toClient, p.pending(false)...)
			}
		}
		if !bytes.Equal(p.got, question) || !bytes.Equal(answer, question) {
			t.Fatalf("asked %x, there %x, back %x", question, p.got, answer)
		}
	})
}

// TestRefused: what a peer may say in place of an answer.
func TestRefused(t *testing.T) {
	now := time.Unix(0, 0)
	for _, tt := range []struct {
		name  string
		in    segment
		err   error
		reset bool
	}{
		{"refused", segment{ack: 101, flags: flagRST | flagACK}, syscall.ECONNREFUSED, false},
		{"a reset of something else", segment{ack: 7, flags: flagRST | flagACK}, nil, false},
		{"an answer to something else", segment{ack: 7, flags: flagSYN | flagACK}, nil, true},
		{"data without a connection", segment{ack: 7, flags: flagACK, data: []byte{1}}, nil, true},
		{"a SYN of its own", segment{flags: flagSYN}, nil, false},
	} {
		var s stream
		s.begin(now, 100)
		out := s.take(now, tt.in)
		if !errors.Is(s.err, tt.err) || (len(out) == 1 && out[0].flags == flagRST) != tt.reset {
			t.Errorf("%s: %v, %+v", tt.name, s.err, out)
		}
		if tt.err == nil {
			if again := s.expire(now.Add(firstWait)); len(again) != 1 || again[0].flags != flagSYN {
				t.Errorf("%s: the SYN is not sent again: %+v", tt.name, again)
			}
		}
	}
}

// TestReset: only a reset within what is expected ends a connection.
func TestReset(t *testing.T) {
	now := time.Unix(0, 0)
	var s stream
	s.begin(now, 100)
	s.take(now, segment{seq: 500, ack: 101, flags: flagSYN | flagACK, window: 1000})
	s.take(now, segment{seq: 499, flags: flagRST})
	s.take(now, segment{seq: 501 + window, flags: flagRST})
	if s.err != nil {
		t.Fatalf("ended by a reset out of its place: %v", s.err)
	}
	s.take(now, segment{seq: 501, flags: flagRST})
	if !errors.Is(s.err, syscall.ECONNRESET) {
		t.Errorf("%v", s.err)
	}
}

func addrs(six bool) (a, b netip.AddrPort) {
	if six {
		return netip.MustParseAddrPort("[2001:db8::1]:1000"), netip.MustParseAddrPort("[2001:db8::2]:80")
	}
	return netip.MustParseAddrPort("10.9.0.1:1000"), netip.MustParseAddrPort("10.9.0.100:80")
}

// TestPacket: what is written is read as it was, and its checksums are right.
func TestPacket(t *testing.T) {
	for _, six := range []bool{false, true} {
		a, b := addrs(six)
		for _, data := range [][]byte{{}, {1}, {1, 2, 3}} {
			in := segment{src: a, dst: b, seq: 1 << 31, ack: 7, flags: flagACK | flagPSH, window: 9, mss: 1220, data: data}
			packet := in.packet()
			out, ok := parse(packet)
			if !ok || out.src != in.src || out.dst != in.dst || out.seq != in.seq || out.ack != in.ack || out.flags != in.flags ||
				out.window != in.window || out.mss != in.mss || !bytes.Equal(out.data, data) {
				t.Errorf("%+v became %+v", in, out)
			}
			header := 20
			if six {
				header = 40
			} else if fold(add(0, packet[:20])) != 0 {
				t.Errorf("the checksum of the header is wrong: %x", packet)
			}
			sum := add(add(protocolTCP+uint32(len(packet)-header), a.Addr().AsSlice()), b.Addr().AsSlice())
			if fold(add(sum, packet[header:])) != 0 {
				t.Errorf("the checksum of the segment is wrong: %x", packet)
			}
		}
	}
}

// FuzzParse: whatever comes in, it is a segment or it is not, and the stream takes it.
func FuzzParse(f *testing.F) {
	for _, six := range []bool{false, true} {
		a, b := addrs(six)
		s := segment{src: b, dst: a, seq: 500, ack: 101, flags: flagSYN | flagACK, mss: 1460, data: []byte("x")}
		f.Add(s.packet())
		f.Add(s.packet()[:30])
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		in, ok := parse(packet)
		if !ok {
			return
		}
		if len(in.data) > len(packet) {
			t.Fatalf("%d bytes of %d", len(in.data), len(packet))
		}
		now := time.Unix(0, 0)
		for _, state := range []state{connecting, open} {
			var s stream
			s.begin(now, 100)
			if s.state = state; state == open {
				s.una, s.expected, s.room = 101, 501, 1000
				s.write(now, []byte("question"))
			}
			for range 2 {
				for _, out := range s.take(now, in) {
					if len(out.data) > ownMSS {
						t.Fatalf("a segment of %d bytes", len(out.data))
					}
				}
			}
			if len(s.in) > len(in.data) {
				t.Fatalf("%d bytes from %d", len(s.in), len(in.data))
			}
			s.expire(now.Add(time.Minute))
		}
	})
}
