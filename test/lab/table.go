package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pool is one service of a kernel's IPVS table, as ipvsadm shows it.
type Pool struct {
	Scheduler string            // with its flags: "rr", "wlc persistent 300"
	Weights   map[string]int    // by "address:port"
	Methods   map[string]string // Route, Masq, Tunnel or Local
}

// Table is a kernel's IPVS table by service: "TCP 10.9.0.100:80", "FWM 7".
type Table map[string]Pool

// String is the table in one line, sorted: to compare and to show.
func (t Table) String() string {
	var b strings.Builder
	for _, service := range slices.Sorted(maps.Keys(t)) {
		p := t[service]
		fmt.Fprintf(&b, "%s %s {", service, p.Scheduler)
		for _, s := range slices.Sorted(maps.Keys(p.Weights)) {
			fmt.Fprintf(&b, " %s %s %d;", s, p.Methods[s], p.Weights[s])
		}
		b.WriteString(" } ")
	}
	return b.String()
}

// Table reads the node's IPVS table with ipvsadm.
func (n *Node) Table() Table {
	n.lab.t.Helper()
	out, err := n.Try("ipvsadm", "-Ln")
	if err != nil {
		n.lab.t.Fatalf("lab: %s: reading the IPVS table: %v (Debian's package ipvsadm is needed)", n.Name, err)
	}
	t := Table{}
	service := ""
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 4 && f[0] == "->" && service != "":
			w, err := strconv.Atoi(f[3])
			if err != nil {
				n.lab.t.Fatalf("lab: %s: line %q of ipvsadm: %v", n.Name, line, err)
			}
			t[service].Weights[f[1]], t[service].Methods[f[1]] = w, f[2]
		case len(f) >= 3 && slices.Contains([]string{"TCP", "UDP", "SCTP", "FWM"}, f[0]):
			service = f[0] + " " + f[1]
			t[service] = Pool{strings.Join(f[2:], " "), map[string]int{}, map[string]string{}}
		}
	}
	return t
}

// WaitWeights waits at most limit until the service has exactly these servers
// with these weights in the node's kernel, and returns when that was seen. No
// service at all is nil.
func (n *Node) WaitWeights(limit time.Duration, service string, want map[string]int) time.Time {
	n.lab.t.Helper()
	matches := func(t Table) bool {
		p, ok := t[service]
		return ok == (want != nil) && maps.Equal(p.Weights, want)
	}
	deadline := time.Now().Add(limit)
	for i := 1; ; i++ {
		// A file is read in no time; ipvsadm, a process, has the last word.
		t, err := n.ProcTable()
		if err != nil {
			n.lab.t.Fatalf("lab: %s: reading the IPVS table: %v", n.Name, err)
		}
		if seen := time.Now(); matches(t) || i%50 == 0 {
			if t := n.Table(); matches(t) {
				return seen
			}
		}
		if time.Now().After(deadline) {
			n.lab.t.Fatalf("lab: %s: %s has not the servers %v after %v: %v", n.Name, service, want, limit, n.Table())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ProcTable is Table read from the kernel's own file, which takes no time: for
// tables of up to some 40 lines, of longer ones the kernel leaves lines out. It
// may be called from any goroutine.
func (n *Node) ProcTable() (Table, error) {
	var b []byte
	err := n.Go(func() (err error) { b, err = os.ReadFile("/proc/thread-self/net/ip_vs"); return err })
	if err != nil {
		return nil, err
	}
	t := Table{}
	service := ""
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 4 && f[0] == "->" && service != "":
			address, err := procAddress(f[1])
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			if t[service].Weights[address], err = strconv.Atoi(f[3]); err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			t[service].Methods[address] = f[2]
		case len(f) >= 3 && f[0] == "FWM":
			mark, err := strconv.ParseUint(f[1], 16, 32)
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			service = fmt.Sprintf("FWM %d", mark)
			t[service] = Pool{strings.Join(f[2:], " "), map[string]int{}, map[string]string{}}
		case len(f) >= 3 && slices.Contains([]string{"TCP", "UDP", "SCTP"}, f[0]):
			address, err := procAddress(f[1])
			if err != nil {
				return nil, fmt.Errorf("line %q: %w", line, err)
			}
			service = f[0] + " " + address
			t[service] = Pool{strings.Join(f[2:], " "), map[string]int{}, map[string]string{}}
		}
	}
	return t, nil
}

// procAddress reads 0A090064:0050 or [2001:0db8:…]:0050.
func procAddress(s string) (string, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", fmt.Errorf("%q is no address with a port", s)
	}
	port, err := strconv.ParseUint(s[i+1:], 16, 16)
	if err != nil {
		return "", fmt.Errorf("port of %q: %w", s, err)
	}
	if strings.HasPrefix(s, "[") {
		a, err := netip.ParseAddr(strings.Trim(s[:i], "[]"))
		return netip.AddrPortFrom(a, uint16(port)).String(), err
	}
	v, err := strconv.ParseUint(s[:i], 16, 32)
	if err != nil {
		return "", fmt.Errorf("address of %q: %w", s, err)
	}
	a := netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
	return netip.AddrPortFrom(a, uint16(port)).String(), nil
}
