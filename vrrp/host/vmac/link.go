package vmac

import (
	"fmt"
	"strings"

	"vipd/vrrp/host"
)

// ParentGroup as Link.Group stands for the interface group of the parent.
const ParentGroup = -1

// Link is a wanted link.
type Link struct {
	Name   string
	Parent string // name of the interface it is made on
	MAC    [6]byte
	Group  int  // interface group, or ParentGroup
	Notify bool // listeners to netlink are told of the parent again, which is promiscuous now
	IPv4   bool // it carries IPv4
	IPv6   bool // it carries IPv6
}

// String is the link as ip(8) would make it.
func (l Link) String() string {
	return fmt.Sprintf("%s link %s address %s", l.Name, l.Parent, macText(l.MAC))
}

// group is the interface group that the link is to be in.
func (l Link) group(parent *host.Link) uint32 {
	if l.Group == ParentGroup {
		return parent.Group
	}
	return uint32(l.Group)
}

func macText(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// markBegin begins the alias of every link that some vipd made; its state directory follows.
const markBegin = "vipd "

// verdict is what is to be done about a wanted link.
type verdict struct {
	remove  *host.Link // it is in the way
	make    bool
	adjust  bool   // it is there, but down, of another size or in another group
	problem string // why there is nothing to be done; "": there is not
}

// judge compares a wanted link with the kernel's state. mine reports whether a link is of this vipd.
func judge(l Link, s host.State, mine func(*host.Link) bool) verdict {
	parent, have := s.Link(l.Parent), s.Link(l.Name)
	if parent == nil {
		return verdict{problem: fmt.Sprintf("%s, which it is to be made on, does not exist", l.Parent)}
	}
	same := have != nil && have.Kind == "macvlan" && have.Private && have.Parent == below(parent) && have.MAC == l.MAC
	switch {
	case have == nil:
		if other := holder(l, parent, s); other != nil {
			if mine(other) {
				return verdict{remove: other, make: true}
			}
			return verdict{problem: fmt.Sprintf("%s on %s has the virtual MAC %s already: remove it if nothing needs it (ip link delete %s), or choose another virtual_router_id", other.Name, l.Parent, macText(l.MAC), other.Name)}
		}
		return verdict{make: true}
	case same && mine(have):
		return verdict{adjust: !have.Up || have.MTU != parent.MTU || have.Group != l.group(parent)}
	case mine(have), same && !strings.HasPrefix(have.Alias, markBegin):
		return verdict{remove: have, make: true}
	case strings.HasPrefix(have.Alias, markBegin):
		return verdict{problem: fmt.Sprintf("a link of this name belongs to another vipd (state directory %s)", strings.TrimPrefix(have.Alias, markBegin))}
	}
	return verdict{problem: "a link of this name is there already and was not made by vipd (" + describe(have, s) + "): remove it if nothing needs it, or name another one in use_vmac"}
}

// below is the index of the link that a macvlan on the parent really is on: a macvlan on another one is beside it. It is
// 0 when that one is in another network namespace, as that of a container is.
func below(parent *host.Link) int {
	if parent.Kind == "macvlan" {
		return parent.Parent
	}
	return parent.Index
}

// holder returns another link on the parent that has the MAC.
func holder(l Link, parent *host.Link, s host.State) *host.Link {
	for _, o := range s.Links {
		if o.Parent == below(parent) && o.Kind == "macvlan" && o.MAC == l.MAC && o.Name != l.Name {
			return o
		}
	}
	return nil
}

// describe says what a link is.
func describe(l *host.Link, s host.State) string {
	kind := l.Kind
	if kind == "" {
		kind = "a network card"
	}
	text := fmt.Sprintf("%s with %s", kind, macText(l.MAC))
	if p := s.ByIndex(l.Parent); l.Parent != 0 && p != nil {
		text += " on " + p.Name
	}
	if l.Kind == "macvlan" && !l.Private {
		text += ", not in private mode"
	}
	return text
}
