package httpcheck

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of one reply.
const (
	maxHead = 64 << 10 // bytes of status lines and headers, those of 1xx replies included
	maxBody = 4 << 20  // bytes of the decoded body
	maxRead = 8 << 20  // bytes read in all, chunk framing included
)

// Reasons for which a reply cannot be used.
var (
	errCut      = errors.New("the reply ended too early")
	errHeadSize = fmt.Errorf("the header is longer than %d KiB", maxHead>>10)
	errBodySize = fmt.Errorf("the body is longer than %d MiB", maxBody>>20)
)

// readReply reads one reply to a GET from r and gives its final status
// (200..599, or 101). Replies with other 1xx codes before it are passed over.
//
// With a nil body it stops at the end of the header: what follows, be it an
// untidy body, a reset or nothing at all, does not matter. Otherwise it writes
// the body, decoded, to body and fails when its end is not reached. It is
// lenient in what it takes (bare LF, no reason phrase, no length, any header
// it does not need) and never reads more than maxRead bytes.
func readReply(r io.Reader, body io.Writer) (status int, err error) {
	in := bufio.NewReaderSize(io.LimitReader(r, maxRead), 4096)
	left := maxHead
	for {
		h, err := readHead(in, &left)
		if err != nil {
			return 0, err
		}
		if h.status < 200 && h.status != 101 {
			continue
		}
		if body == nil || !h.hasBody() {
			return h.status, nil
		}
		return h.status, h.readBody(in, body)
	}
}

// head is what is needed of a status line and the header below it.
type head struct {
	status    int
	http10    bool
	lengths   []string // the Content-Length fields as sent
	encodings []string // the Transfer-Encoding fields as sent
}

// hasBody follows RFC 9112 §6.3 for replies to GET.
func (h *head) hasBody() bool { return h.status >= 200 && h.status != 204 && h.status != 304 }

func readHead(in *bufio.Reader, left *int) (*head, error) {
	line, err := readLine(in, left)
	if err != nil {
		return nil, err
	}
	h := &head{}
	if err := h.parseStatus(string(line)); err != nil {
		return nil, err
	}
	last := "" // name of the field that a folded line continues
	for {
		line, err := readLine(in, left)
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			return h, nil
		}
		if line[0] == ' ' || line[0] == '\t' {
			h.field(last, " "+string(bytes.TrimSpace(line)), true)
			continue
		}
		name, value, _ := strings.Cut(string(line), ":")
		last = strings.ToLower(name)
		h.field(last, strings.TrimSpace(value), false)
	}
}

// parseStatus takes "HTTP/1.1 200 OK"; the reason may be missing.
func (h *head) parseStatus(line string) error {
	version, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimLeft(rest, " ")
	code, _, _ := strings.Cut(rest, " ")
	major, minor, ok := strings.Cut(strings.TrimPrefix(version, "HTTP/"), ".")
	if !ok || !strings.HasPrefix(version, "HTTP/") || !digits(major, 1) || !digits(minor, 1) || !digits(code, 3) {
		return fmt.Errorf("no HTTP reply: it begins with %q", shorten(line))
	}
	h.http10 = major == "0" || major == "1" && minor == "0"
	h.status, _ = strconv.Atoi(code)
	if h.status < 100 || h.status > 599 {
		return fmt.Errorf("no HTTP reply: status %s is not in 100-599", code)
	}
	return nil
}

func digits(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789") == ""
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// field notes the fields that say where the body ends.
func (h *head) field(name, value string, folded bool) {
	var values *[]string
	switch name {
	case "content-length":
		values = &h.lengths
	case "transfer-encoding":
		values = &h.encodings
	default:
		return
	}
	if folded {
		(*values)[len(*values)-1] += value
		return
	}
	*values = append(*values, value)
}

// joined gives the one value that fields have, or all of them when they differ.
func joined(values []string) string {
	for i := range values {
		values[i] = strings.TrimSpace(values[i])
	}
	return strings.Join(slices.Compact(values), ",")
}

// readBody reads the body as its header says: chunked, of a length, or up to
// the end of the connection.
func (h *head) readBody(in *bufio.Reader, body io.Writer) error {
	switch {
	case len(h.encodings) > 0 && !h.http10: // HTTP/1.0 has no transfer encodings
		if encoding := joined(h.encodings); !strings.EqualFold(encoding, "chunked") {
			return fmt.Errorf("transfer encoding %q is not known", shorten(encoding))
		}
		return readChunks(in, body)
	case len(h.lengths) > 0:
		length := joined(h.lengths)
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil {
			return fmt.Errorf("the Content-Length %q is no number", shorten(length))
		}
		if n > maxBody {
			return errBodySize
		}
		return copyBody(body, in, int64(n))
	default:
		n, err := io.Copy(body, io.LimitReader(in, maxBody+1))
		if err == nil && n > maxBody {
			err = errBodySize
		}
		return err
	}
}

func copyBody(body io.Writer, in *bufio.Reader, n int64) error {
	_, err := io.CopyN(body, in, n)
	if err == io.EOF {
		return errCut
	}
	return err
}

// readChunks decodes a chunked body up to its last chunk; trailers are left.
func readChunks(in *bufio.Reader, body io.Writer) error {
	total := uint64(0)
	for {
		left := 4096 // bytes of one chunk's first line
		line, err := readLine(in, &left)
		if err == errHeadSize {
			return errors.New("a chunk's length line is longer than 4 KiB")
		}
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(string(line), ";")
		size = strings.Trim(size, " \t")
		n, err := strconv.ParseUint(size, 16, 63)
		if err != nil {
			return fmt.Errorf("the chunk length %q is no number", shorten(size))
		}
		if n == 0 {
			return nil
		}
		if total += n; n > maxBody || total > maxBody {
			return errBodySize
		}
		if err := copyBody(body, in, int64(n)); err != nil {
			return err
		}
		left = 2
		if line, err := readLine(in, &left); err != nil || len(line) > 0 {
			if err == nil || err == errHeadSize {
				err = errors.New("a chunk is longer than its length")
			}
			return err
		}
	}
}

// readLine reads up to LF and gives the line without its line end. It takes
// what it read off left and fails when that is used up.
func readLine(in *bufio.Reader, left *int) ([]byte, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return nil, errHeadSize
		}
		switch err {
		case nil:
			if long != nil {
				part = append(long, part...)
			}
			return bytes.TrimSuffix(part[:len(part)-1], []byte("\r")), nil
		case bufio.ErrBufferFull:
			long = append(long, part...)
		case io.EOF:
			return nil, errCut
		default:
			return nil, err
		}
	}
}
