package fib

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Action is what a rule does (FR_ACT_*).
type Action uint8

// The actions.
const (
	ToTable         Action = 1
	Goto            Action = 2
	RuleBlackhole   Action = 6
	RuleUnreachable Action = 7
	RuleProhibit    Action = 8
)

// Rule is one rule of the routing policy.
type Rule struct {
	IPv6           bool         `json:"ipv6,omitempty"`
	Not            bool         `json:"not,omitempty"`
	From           netip.Prefix `json:"from,omitzero"` // invalid: any
	To             netip.Prefix `json:"to,omitzero"`
	IIF            string       `json:"iif,omitempty"`
	OIF            string       `json:"oif,omitempty"`
	TOS            uint8        `json:"tos,omitempty"`
	Mark           uint32       `json:"mark,omitempty"`
	Mask           uint32       `json:"mask,omitempty"` // 0: any mark
	Priority       uint32       `json:"priority"`
	Action         Action       `json:"action"`
	Table          uint32       `json:"table,omitempty"` // of ToTable; 0: that of the interface's VRF (l3mdev)
	Goto           uint32       `json:"goto,omitempty"`
	IPProto        uint8        `json:"ipproto,omitempty"`
	SPort          [2]uint16    `json:"sport,omitzero"`
	DPort          [2]uint16    `json:"dport,omitzero"`
	UIDs           [2]uint32    `json:"uids,omitzero"`
	UID            bool         `json:"uid,omitempty"`
	SuppressPrefix int          `json:"suppress_prefixlength"` // -1: off
	Protocol       uint8        `json:"protocol"`
}

// String returns the rule as ip(8) writes it. What vipd's own rules have in common is
// left out.
func (r *Rule) String() string {
	var w []string
	add := func(words ...string) { w = append(w, words...) }
	if r.Not {
		add("not")
	}
	add("from")
	switch {
	case r.From.IsValid():
		add(r.From.String())
	case r.IPv6:
		add("::/0")
	default:
		add("all")
	}
	if r.To.IsValid() {
		add("to", r.To.String())
	}
	if r.TOS != 0 {
		add("tos", fmt.Sprintf("0x%02x", r.TOS))
	}
	if r.Mask != 0 {
		add("fwmark", fmt.Sprintf("0x%x/0x%x", r.Mark, r.Mask))
	}
	if r.IIF != "" {
		add("iif", r.IIF)
	}
	if r.OIF != "" {
		add("oif", r.OIF)
	}
	if r.UID {
		add("uidrange", fmt.Sprintf("%d-%d", r.UIDs[0], r.UIDs[1]))
	}
	if r.IPProto != 0 {
		add("ipproto", strconv.Itoa(int(r.IPProto)))
	}
	if r.SPort[1] != 0 {
		add("sport", fmt.Sprintf("%d-%d", r.SPort[0], r.SPort[1]))
	}
	if r.DPort[1] != 0 {
		add("dport", fmt.Sprintf("%d-%d", r.DPort[0], r.DPort[1]))
	}
	add(r.does()...)
	if r.SuppressPrefix >= 0 {
		add("suppress_prefixlength", strconv.Itoa(r.SuppressPrefix))
	}
	add("priority", strconv.FormatUint(uint64(r.Priority), 10))
	if r.Protocol != Protocol {
		add("proto", strconv.Itoa(int(r.Protocol)))
	}
	return strings.Join(w, " ")
}

// does returns the action as words.
func (r *Rule) does() []string {
	switch {
	case r.Action == ToTable && r.Table == 0:
		return []string{"l3mdev"}
	case r.Action == ToTable:
		return []string{"table", strconv.FormatUint(uint64(r.Table), 10)}
	case r.Action == Goto:
		return []string{"goto", strconv.FormatUint(uint64(r.Goto), 10)}
	}
	return []string{map[Action]string{RuleBlackhole: "blackhole", RuleUnreachable: "unreachable", RuleProhibit: "prohibit"}[r.Action]}
}

// same compares a rule of the kernel with a wanted one. others says that it may be of
// any protocol.
func (r *Rule) same(have *Rule, others bool) bool {
	h := *have
	if others {
		h.Protocol = r.Protocol
	}
	return *r == h
}
