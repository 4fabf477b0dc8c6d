package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"vipd/cmd/internal/control"
	"vipd/cmd/internal/netns"
	"vipd/conf"
	ipvsnl "vipd/ipvs/netlink"
)

// ErrAsked is what Options.Ready returns when vipd was asked to stop meanwhile.
var ErrAsked = errors.New("asked to stop")

// home is what is known of the namespaces that the process is not in.
type home struct {
	first string // path of the one it was started in
	ipvs  string // path of that of the IPVS table; "": that of the process
}

// enter makes the process one of the network namespace of its configuration. When it
// is not there yet, the program starts anew, and enter returns only to fail.
func enter(p conf.Place, ready func() error, log *zap.Logger) (home, error) {
	if name := netns.Entered(); name != "" && name != p.Namespace {
		return home{}, fmt.Errorf("net_namespace: it was %q when the configuration was read first, and is %q now: it must be a file that can be read again", name, p.Namespace)
	}
	if p.Namespace != "" {
		inside, err := netns.Inside(netns.Path(p.Namespace))
		if err != nil {
			return home{}, fmt.Errorf("net_namespace: %w", err)
		}
		if !inside {
			return home{}, fmt.Errorf("net_namespace: %w", netns.Enter(p.Namespace, ready))
		}
	}
	if text := netns.Warning(); text != "" {
		log.Warn("the file system does not fit the network namespace in everything; commands may see the machine's", zap.String("err", text))
	}
	h := home{first: netns.First()}
	switch {
	case p.IPVS != "":
		h.ipvs = netns.Path(p.IPVS)
	case p.FirstIPVS && p.Namespace != "": // else the process is in it
		h.ipvs = h.first
	default:
		return h, nil
	}
	if err := netns.Do(h.ipvs, func() error { return nil }); err != nil {
		return home{}, fmt.Errorf("net_namespace_ipvs: %w", err)
	}
	return h, nil
}

// kernel is the IPVS of the configuration's namespace.
func (h home) kernel() *ipvsnl.Kernel {
	if h.ipvs == "" {
		return ipvsnl.NewKernel(nil)
	}
	return ipvsnl.NewKernel(func(open func() error) error { return netns.Do(h.ipvs, open) })
}

// strayed says what is wrong with the namespace that the process is in, "" when nothing is.
func strayed(p conf.Place) string {
	if p.Namespace == "" {
		return ""
	}
	switch inside, err := netns.Inside(netns.Path(p.Namespace)); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("net_namespace: the name %q was deleted; vipd still runs in the namespace, but cannot start again until it is made anew", p.Namespace)
	case err != nil:
		return "net_namespace: " + err.Error()
	case !inside:
		return fmt.Sprintf("net_namespace: %q is another namespace now than the one vipd runs in: restart vipd", p.Namespace)
	}
	return ""
}

// settle fills in where the daemon lives, as far as no flag has said so. mode
// distinguishes another kind of daemon beside it.
func (o *Options) settle(p conf.Place, mode string) {
	var name []string
	for _, part := range []string{p.Namespace, p.Instance, mode} {
		if part != "" {
			name = append(name, part)
		}
	}
	socket := control.SocketOf(strings.Join(name, "-"))
	if o.StateDir == "" {
		o.StateDir = filepath.Dir(socket)
	}
	if o.Socket == "" {
		o.Socket = socket
	}
}

// moved refuses a reload to another place.
func moved(old, now conf.Place) error {
	if old == now {
		return nil
	}
	var what []string
	for _, c := range conf.Diff(&conf.Config{Place: old}, &conf.Config{Place: now}) {
		what = append(what, c.Details...)
	}
	return fmt.Errorf("%s: a reload cannot change this; put it back, or restart vipd with the new file (the addresses then move for a moment)", strings.Join(what, ", "))
}
