package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

const (
	cmdGetService  = 4
	flagPersistent = 0x01
)

// services lists all services of this namespace.
func (b *batcher) services() ([]ipvs.Service, error) {
	answers, err := b.dump(cmdGetService)
	if err != nil {
		return nil, err
	}
	all := make([]ipvs.Service, 0, len(answers))
	for _, m := range answers {
		if len(m.Data) < 4 {
			return nil, fmt.Errorf("reading a service: %w", errShort)
		}
		s, err := decodeService(m.Data[4:])
		if err != nil {
			return nil, fmt.Errorf("reading a service: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

var errShort = errors.New("the kernel's answer is too short")

// dump asks for everything of a kind. Late answers to given up messages are passed over.
func (b *batcher) dump(command uint8) ([]netlink.Message, error) {
	ask := []netlink.Message{{
		Header: netlink.Header{Type: netlink.HeaderType(b.family), Flags: netlink.Request | netlink.Dump},
		Data:   []byte{command, genlVersion, 0, 0},
	}}
	err := b.c.SetDeadline(time.Now().Add(Timeout))
	if err == nil {
		ask, err = b.c.SendMessages(ask)
	}
	if err != nil {
		return nil, connError(err)
	}
	seq := ask[0].Header.Sequence
	for {
		answers, err := b.c.Receive()
		var refused *netlink.OpError
		if errors.As(err, &refused) && refused.Sequence != 0 && refused.Sequence != seq {
			continue
		}
		if err != nil {
			return nil, connError(err)
		}
		if len(answers) == 0 || answers[0].Header.Sequence == seq {
			return answers, nil
		}
	}
}

// rawService is a service as its attributes say it.
type rawService struct {
	family, protocol uint16
	address          []byte
	port             uint16
	mark, timeout    uint32
	flags, mask      []byte
	scheduler        string
	engine           string
}

// decodeService reads the attributes of a GET_SERVICE answer.
func decodeService(b []byte) (ipvs.Service, error) {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return ipvs.Service{}, err
	}
	var raw rawService
	for ad.Next() {
		if ad.Type() == attrService {
			ad.Nested(raw.read)
		}
	}
	if err := ad.Err(); err != nil {
		return ipvs.Service{}, err
	}
	return raw.service()
}

func (r *rawService) read(ad *netlink.AttributeDecoder) error {
	for ad.Next() {
		switch ad.Type() {
		case svcAF:
			r.family = ad.Uint16()
		case svcProtocol:
			r.protocol = ad.Uint16()
		case svcAddr:
			r.address = ad.Bytes()
		case svcPort:
			if p := ad.Bytes(); len(p) == 2 {
				r.port = binary.BigEndian.Uint16(p)
			}
		case svcFWMark:
			r.mark = ad.Uint32()
		case svcScheduler:
			r.scheduler = ad.String()
		case svcFlags:
			r.flags = ad.Bytes()
		case svcTimeout:
			r.timeout = ad.Uint32()
		case svcNetmask:
			r.mask = ad.Bytes()
		case svcEngine:
			r.engine = ad.String()
		}
	}
	return ad.Err()
}

// service turns what was read into a service in normal form.
func (r *rawService) service() (ipvs.Service, error) {
	v6 := r.family == unix.AF_INET6
	if len(r.flags) < 4 || len(r.mask) < 4 {
		return ipvs.Service{}, errShort
	}
	flags := binary.NativeEndian.Uint32(r.flags)
	s := ipvs.Service{Scheduler: r.scheduler, Flags: ipvs.Flags(flags) & ipvs.FlagsAll, Engine: r.engine}
	if v6 {
		s.Granularity = int(binary.NativeEndian.Uint32(r.mask))
	} else {
		s.Granularity = bits.OnesCount32(binary.BigEndian.Uint32(r.mask))
	}
	length := 4
	if v6 {
		length = 16
	}
	switch {
	case r.mark != 0:
		s.Key = ipvs.MarkKey(r.mark, v6)
	case len(r.address) < length:
		return ipvs.Service{}, errShort
	default:
		host, _ := netip.AddrFromSlice(r.address[:length]) // of one of the two lengths there are
		s.Key = ipvs.AddressKey(ipvs.Protocol(r.protocol), netip.AddrPortFrom(host, r.port))
	}
	if flags&flagPersistent != 0 {
		s.Persistence = time.Duration(r.timeout) * time.Second
		if s.Persistence == 0 {
			s.Persistence = -1 // persistent without a time: must not look like a service without persistence
		}
	}
	return s.Normal(), nil
}
