package netlink

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"vipd/ipvs"
)

// Error is a change that the kernel refused. errors.Is finds the kernel's errno in it: EEXIST for what is there already,
// ESRCH for a missing service, ENOENT for a missing destination or an unknown scheduler.
type Error struct {
	Op  ipvs.Op
	Err error
}

// Error says what was tried, what the kernel answered and, where it is known, what to do.
func (e *Error) Error() string {
	if r := e.Remedy(); r != "" {
		return fmt.Sprintf("%s: %s (%s)", e.Op, r, errnoText(e.Err))
	}
	return fmt.Sprintf("%s: %s", e.Op, errnoText(e.Err))
}

// Unwrap returns the kernel's answer.
func (e *Error) Unwrap() error { return e.Err }

// Remedy explains the errors that an operator can do something about; else it is empty.
func (e *Error) Remedy() string {
	service := e.Op.Kind == ipvs.AddService || e.Op.Kind == ipvs.EditService
	family := e.Op.Destination.Address.Addr().Is6() != e.Op.Service.IPv6
	d := e.Op.Destination
	switch {
	case errors.Is(e.Err, unix.ENOENT) && service && e.Op.Service.Engine != "":
		return fmt.Sprintf("scheduler %q or persistence engine %q is not in this kernel: modprobe ip_vs_%s or ip_vs_pe_%s failed",
			e.Op.Service.Scheduler, e.Op.Service.Engine, e.Op.Service.Scheduler, e.Op.Service.Engine)
	case errors.Is(e.Err, unix.ENOENT) && service:
		return fmt.Sprintf("scheduler %q is not in this kernel: modprobe ip_vs_%s failed", e.Op.Service.Scheduler, e.Op.Service.Scheduler)
	case errors.Is(e.Err, unix.EPERM):
		return "not permitted: run as root or with CAP_NET_ADMIN"
	case errors.Is(e.Err, unix.EAFNOSUPPORT):
		return "this kernel's IPVS has no IPv6: it needs CONFIG_IP_VS_IPV6"
	case errors.Is(e.Err, unix.EINVAL) && e.Op.OnDestination() && family:
		if d.Method == ipvs.TUN {
			return "the kernel takes no server of another address family than its service while a connection sync daemon runs"
		}
		return "a server of another address family than its service needs the method TUN"
	case errors.Is(e.Err, unix.ERANGE) && e.Op.OnDestination() && d.Lower > d.Upper:
		return "the lower connection limit is above the upper one"
	}
	return ""
}

// errnoText leaves out the library's own words around the kernel's answer.
func errnoText(err error) string {
	var op *netlink.OpError
	if errors.As(err, &op) && op.Err != nil {
		if op.Message != "" {
			return op.Err.Error() + ": " + op.Message
		}
		return op.Err.Error()
	}
	return err.Error()
}
