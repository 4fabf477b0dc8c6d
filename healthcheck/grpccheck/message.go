package grpccheck

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// servingStatus is ServingStatus of grpc.health.v1.
type servingStatus uint64

// The states that a service may be in.
const (
	unknown servingStatus = iota
	serving
	notServing
	serviceUnknown
)

// String is the name of the protocol definition.
func (s servingStatus) String() string {
	switch s {
	case unknown:
		return "UNKNOWN"
	case serving:
		return "SERVING"
	case notServing:
		return "NOT_SERVING"
	case serviceUnknown:
		return "SERVICE_UNKNOWN"
	}
	return fmt.Sprintf("status %d", uint64(s))
}

// prefixLength is what is before each message of gRPC: whether it is compressed,
// and its length.
const prefixLength = 5

// request is HealthCheckRequest{service: …} with its prefix.
func request(service string) []byte {
	var message []byte
	if service != "" {
		message = append(message, 1<<3|wireBytes)
		message = binary.AppendUvarint(message, uint64(len(service)))
		message = append(message, service...)
	}
	out := make([]byte, prefixLength, prefixLength+len(message))
	binary.BigEndian.PutUint32(out[1:], uint32(len(message)))
	return append(out, message...)
}

// The wire types of protocol buffers.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

var (
	errCompressed = errors.New("the answer is compressed, which was not asked for")
	errMessage    = errors.New("the answer is no HealthCheckResponse")
)

// response reads HealthCheckResponse with its prefix. Fields that are not known
// are skipped; without a status it is UNKNOWN.
func response(b []byte) (servingStatus, error) {
	if len(b) < prefixLength {
		return 0, errMessage
	}
	if b[0] != 0 {
		return 0, errCompressed
	}
	n := binary.BigEndian.Uint32(b[1:])
	b = b[prefixLength:]
	if uint64(n) != uint64(len(b)) {
		return 0, errMessage
	}
	var status uint64
	for len(b) > 0 {
		tag, width := binary.Uvarint(b)
		if width <= 0 {
			return 0, errMessage
		}
		b = b[width:]
		var ok bool
		if tag == 1<<3|wireVarint {
			if status, width = binary.Uvarint(b); width <= 0 {
				return 0, errMessage
			}
			b = b[width:]
		} else if b, ok = skip(b, tag&7); !ok {
			return 0, errMessage
		}
	}
	return servingStatus(status), nil
}

// skip drops the value of a field of this wire type.
func skip(b []byte, wire uint64) ([]byte, bool) {
	n := uint64(0)
	switch wire {
	case wireVarint:
		_, width := binary.Uvarint(b)
		if width <= 0 {
			return nil, false
		}
		n = uint64(width)
	case wire64:
		n = 8
	case wire32:
		n = 4
	case wireBytes:
		length, width := binary.Uvarint(b)
		if width <= 0 || length > uint64(len(b)) {
			return nil, false
		}
		n = uint64(width) + length
	default:
		return nil, false
	}
	if n > uint64(len(b)) {
		return nil, false
	}
	return b[n:], true
}
