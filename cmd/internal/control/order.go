package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Action is what is to be done with real servers.
type Action string

// The actions.
const (
	Drain       Action = "drain"       // no new connections; out when there is none
	Undrain     Action = "undrain"     // the end of Drain
	Maintenance Action = "maintenance" // as Drain, and nobody is told of the server's health; On says whether
	Weight      Action = "weight"      // another weight, or the configured one
)

// Order is what an operator tells about real servers.
type Order struct {
	Action  Action         `json:"action"`
	Server  string         `json:"server"`            // address, with or without port
	Service string         `json:"service,omitempty"` // name, "tcp ADDRESS:PORT" or ADDRESS:PORT; "": all that have the server
	Max     *time.Duration `json:"max,omitempty"`     // of Drain and Maintenance, nanoseconds: how long at most; 0: no limit; nil: drain_max
	Weight  *int           `json:"weight,omitempty"`  // of Weight; nil: the configured one
	On      bool           `json:"on,omitempty"`      // of Maintenance
	By      string         `json:"-"`                 // who said so, as the socket sees it
}

// maxOrder is the size of an order in bytes.
const maxOrder = 4096

// order answers an order.
func order(w http.ResponseWriter, r *http.Request, d Daemon) {
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder))
	in.DisallowUnknownFields()
	var o Order
	if err := in.Decode(&o); err != nil {
		http.Error(w, fmt.Sprintf("reading an order: %v; are vipd and the command of one version?", err), http.StatusBadRequest)
		return
	}
	o.By, _ = r.Context().Value(peer{}).(string)
	text, err := d.Order(r.Context(), o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	_, _ = w.Write([]byte(text)) // the client is gone: nobody to tell
}

// peer is the key under which a connection's context has who is at its other end.
type peer struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peer{}, who(c))
}

// who names the user at the other end: "root", or "alice (as root)" for somebody who
// logged in as another one.
func who(c net.Conn) string {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return "unknown"
	}
	var cred *unix.Ucred
	raw, err := u.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { cred, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	}
	if err != nil || cred == nil {
		return "unknown"
	}
	name := userName(cred.Uid)
	// The login's user survives su and sudo. Most machines have it; without it the
	// process's own must do.
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/loginuid", cred.Pid))
	login, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil || login == 1<<32-1 || uint32(login) == cred.Uid {
		return name
	}
	return userName(uint32(login)) + " (as " + name + ")"
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}
