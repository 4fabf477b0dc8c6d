package httpcheck

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadReply(t *testing.T) {
	tests := []struct {
		name, reply string
		status      int    // with a nil body
		body        string // with a body
		bodyErr     string // instead of body
	}{
		{"plain", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", ""},
		{"surplus is left", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello again", 200, "hello", ""},
		{"no reason", "HTTP/1.1 200\r\n\r\n", 200, "", ""},
		{"HTTP/1.0 without length", "HTTP/1.0 200 OK\r\n\r\nhello", 200, "hello", ""},
		{"HTTP/1.0 knows no chunks", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n", 200, "5\r\n", ""},
		{"bare line feeds", "HTTP/1.0 200 OK\nX: y\n\nhello", 200, "hello", ""},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n", 200, "hello", ""},
		{"chunked, end of trailer missing", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n", 200, "hello", ""},
		{"chunks before length", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, "hello", ""},
		{"100 first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, "", ""},
		{"two 1xx first", "HTTP/1.1 102 P\r\nX: y\r\n\r\nHTTP/1.1 103 E\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 1\r\n\r\n!", 503, "!", ""},
		{"101 is final", "HTTP/1.1 101 Switching\r\n\r\nxyz", 101, "", ""},
		{"304 has no body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, "", ""},
		{"folded header", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length:\r\n 5\r\n\r\nhello...", 200, "hello", ""},
		{"line without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", 200, "", ""},
		{"long header line", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 50000) + "\r\n\r\nhello", 200, "hello", ""},
		{"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello...", 200, "hello", ""},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 200, "", `the Content-Length "5,6" is no number`},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello", 200, "", `the Content-Length "-5" is no number`},
		{"body cut", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", 200, "", "the reply ended too early"},
		{"chunk cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello", 200, "", "the reply ended too early"},
		{"last chunk missing", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 200, "", "the reply ended too early"},
		{"chunk too long", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n", 200, "", "a chunk is longer than its length"},
		{"chunk length is no number", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\nhello\r\n", 200, "", `the chunk length "five" is no number`},
		{"chunk of all memory", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nhello\r\n", 200, "", "the body is longer than 4 MiB"},
		{"gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 200, "", `transfer encoding "gzip, chunked" is not known`},
		{"length of 5 MiB", "HTTP/1.1 200 OK\r\nContent-Length: 5242880\r\n\r\n", 200, "", "the body is longer than 4 MiB"},
		{"5 MiB without length", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 5<<20), 200, "", "the body is longer than 4 MiB"},
		{"exactly 4 MiB", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 4<<20), 200, strings.Repeat("x", 4<<20), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, err := readReply(strings.NewReader(tt.reply), nil)
			if status != tt.status || err != nil {
				t.Errorf("header only: got %d, %v", status, err)
			}
			readers := []io.Reader{strings.NewReader(tt.reply), iotest.DataErrReader(strings.NewReader(tt.reply))}
			if len(tt.reply) < 1<<20 {
				readers = append(readers, iotest.OneByteReader(strings.NewReader(tt.reply)))
			}
			for _, r := range readers {
				var body bytes.Buffer
				status, err = readReply(r, &body)
				switch {
				case status != tt.status:
					t.Errorf("with body: status %d", status)
				case tt.bodyErr != "" && (err == nil || err.Error() != tt.bodyErr):
					t.Errorf("with body: error %v, want %s", err, tt.bodyErr)
				case tt.bodyErr == "" && (err != nil || body.String() != tt.body):
					t.Errorf("with body: got %.40q, %v, want %.40q", body.String(), err, tt.body)
				}
			}
		})
	}
}

func TestReadReplyRefuses(t *testing.T) {
	tests := []struct{ name, reply, want string }{
		{"nothing", "", "the reply ended too early"},
		{"half a line", "HTTP/1.1 200", "the reply ended too early"},
		{"header not ended", "HTTP/1.1 200 OK\r\nX: y\r\n", "the reply ended too early"},
		{"only 1xx", "HTTP/1.1 100 Continue\r\n\r\n", "the reply ended too early"},
		{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n\r\n", `no HTTP reply: it begins with "SSH-2.0-OpenSSH_9.2"`},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", `no HTTP reply: it begins with "HTTP/1.1 20 OK"`},
		{"status with sign", "HTTP/1.1 +20 OK\r\n\r\n", `no HTTP reply: it begins with "HTTP/1.1 +20 OK"`},
		{"status 099", "HTTP/1.1 099 OK\r\n\r\n", "no HTTP reply: status 099 is not in 100-599"},
		{"status 600", "HTTP/1.1 600 OK\r\n\r\n", "no HTTP reply: status 600 is not in 100-599"},
		{"no version", "HTTP 200 OK\r\n\r\n", `no HTTP reply: it begins with "HTTP 200 OK"`},
		{"long first line", strings.Repeat("x", 100) + "\r\n", `no HTTP reply: it begins with "` + strings.Repeat("x", 40) + `…"`},
		{"header too long", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 12000), "the header is longer than 64 KiB"},
		{"1xx for ever", strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 4000), "the header is longer than 64 KiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, err := readReply(strings.NewReader(tt.reply), nil)
			if status != 0 || err == nil || err.Error() != tt.want {
				t.Errorf("got %d, %v, want %s", status, err, tt.want)
			}
		})
	}
}

// TestHeaderDecides: an error right after the header is no error when only the
// status is wanted; with a body it is.
func TestHeaderDecides(t *testing.T) {
	broken := errors.New("reset")
	reply := func() io.Reader {
		return io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nxy"), iotest.ErrReader(broken))
	}
	if status, err := readReply(reply(), nil); status != 200 || err != nil {
		t.Errorf("header only: got %d, %v", status, err)
	}
	if status, err := readReply(reply(), io.Discard); status != 200 || !errors.Is(err, broken) {
		t.Errorf("with body: got %d, %v", status, err)
	}
}

// endless gives the same bytes for ever and counts them.
type endless struct {
	prefix, text string
	read         int
}

func (e *endless) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		if at := e.read; at < len(e.prefix) {
			m := copy(b[n:], e.prefix[at:])
			n, e.read = n+m, e.read+m
			continue
		}
		m := copy(b[n:], e.text[(e.read-len(e.prefix))%len(e.text):])
		n, e.read = n+m, e.read+m
	}
	return n, nil
}

// TestBounds: a server that never stops costs no more than the bounds.
func TestBounds(t *testing.T) {
	const buffer = 4096
	tests := []struct {
		name  string
		r     endless
		bound int
	}{
		{"header", endless{prefix: "HTTP/1.1 200 OK\r\n", text: strings.Repeat("X: y\r\n", 1000)}, maxHead},
		{"header line", endless{text: strings.Repeat("x", 4096)}, maxHead},
		{"1xx", endless{text: "HTTP/1.1 102 P\r\n\r\n"}, maxHead},
		{"body", endless{prefix: "HTTP/1.1 200 OK\r\n\r\n", text: strings.Repeat("x", 4096)}, maxBody + 64<<10},
		{"chunks of one byte", endless{prefix: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", text: strings.Repeat("1\r\nx\r\n", 1000)}, maxRead},
		{"chunk line", endless{prefix: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", text: strings.Repeat("x", 4096)}, 8192},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := readReply(&tt.r, io.Discard); err == nil {
				t.Error("an endless reply was accepted")
			}
			if tt.r.read > tt.bound+buffer {
				t.Errorf("read %d bytes, bound %d", tt.r.read, tt.bound)
			}
		})
	}
}

// counted counts what is read through it.
type counted struct {
	r io.Reader
	n int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

// reference decodes a reply with net/http; ok is false when net/http refuses it.
func reference(data []byte) (status int, body []byte, ok bool) {
	in := bufio.NewReader(bytes.NewReader(data))
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return 0, nil, false
		}
		if resp.StatusCode >= 100 && resp.StatusCode < 200 && resp.StatusCode != 101 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		return resp.StatusCode, body, err == nil
	}
}

func FuzzReadReply(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.0 200 OK\nTransfer-Encoding: chunked\n\n0\n\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nxyz",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &counted{r: iotest.HalfReader(bytes.NewReader(data))}
		var body bytes.Buffer
		status, err := readReply(in, &body)
		headStatus, headErr := readReply(bytes.NewReader(data), nil)
		switch {
		case in.n > maxRead:
			t.Fatalf("read %d bytes", in.n)
		case body.Len() > maxBody+1:
			t.Fatalf("body of %d bytes", body.Len())
		case status != headStatus:
			t.Fatalf("status %d with body, %d without", status, headStatus)
		case (headErr == nil) != (status != 0):
			t.Fatalf("status %d and error %v", headStatus, headErr)
		case status != 0 && status != 101 && (status < 200 || status > 599):
			t.Fatalf("status %d accepted", status)
		}
		wantStatus, wantBody, ok := reference(data)
		if !ok || wantStatus < 101 || wantStatus > 599 || errors.Is(err, errHeadSize) || errors.Is(headErr, errHeadSize) || errors.Is(err, errBodySize) {
			return
		}
		if status != wantStatus || err != nil {
			t.Fatalf("net/http accepts it with status %d; here: %d, %v", wantStatus, status, err)
		}
		if status != 101 && !bytes.Equal(body.Bytes(), wantBody) {
			t.Fatalf("body %q, net/http reads %q", body.Bytes(), wantBody)
		}
	})
}
