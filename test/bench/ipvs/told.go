package main

import (
	"encoding/binary"
	"time"

	"github.com/mdlayher/genetlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"vipd/test/lab"
)

// told is what the kernel was told of one reload.
type told struct {
	took           time.Duration // to the last change
	calls, changes int
}

// oneChange reloads and counts what the kernel is told until a second after the first
// change.
func (s *site) oneChange(p *subject, f farm) told {
	family := s.family()
	s.d1.IP("link set nl0 up")
	defer s.d1.IP("link set nl0 down")
	seen := s.d1.CaptureOn("nl0", bpf.LoadExtension{Num: bpf.ExtProto}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.NETLINK_GENERIC, SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 18}, bpf.RetConstant{Val: 0})
	defer seen.Close()
	from := s.reload(p, f)
	seen.WaitFrame(3*time.Minute, "change of the table", func(fr lab.Frame) bool { return tableChanges(fr.Raw, family) > 0 })
	time.Sleep(time.Second)
	var out told
	for _, fr := range seen.Frames() {
		if n := tableChanges(fr.Raw, family); n > 0 && fr.At.After(from) {
			out.calls++
			out.changes += n
			out.took = fr.At.Sub(from)
		}
	}
	if n := seen.Lost(); n > 0 {
		s.st.Fatalf("%d netlink messages were not seen", n)
	}
	return out
}

// family is the number of IPVS in generic netlink.
func (s *site) family() (id uint16) {
	err := s.d1.Go(func() error {
		c, err := genetlink.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		f, err := c.GetFamily("IPVS")
		id = f.ID
		return err
	})
	if err != nil {
		s.st.Fatalf("looking up IPVS in generic netlink: %v", err)
	}
	return id
}

// tableChanges counts the requests in a message that change services or servers.
func tableChanges(raw []byte, family uint16) (n int) {
	const header = 16 // length, type, flags, sequence, port; then the command
	for len(raw) >= header+4 {
		length := int(binary.NativeEndian.Uint32(raw))
		if length < header || length > len(raw) {
			return n
		}
		if binary.NativeEndian.Uint16(raw[4:]) == family && binary.NativeEndian.Uint16(raw[6:])&unix.NLM_F_REQUEST != 0 {
			// NEW, SET and DEL of services, then of servers; 4 and 8 read.
			if command := raw[header]; command >= 1 && command <= 7 && command != 4 {
				n++
			}
		}
		raw = raw[min(len(raw), (length+3)&^3):]
	}
	return n
}
