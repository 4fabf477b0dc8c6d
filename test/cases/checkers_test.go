package cases

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O38: servers that hang in every phase of a check go down, and each of them is back
// within its intervals when it answers again, over several rounds. No check stops,
// and none is an alarm.
func TestO38EveryServerComesBack(t *testing.T) {
	t.Parallel()
	const (
		perPhase = 20
		first    = 7000
		interval = time.Second
		timeout  = 800 * time.Millisecond
	)
	phases := []func(net.Conn){
		func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		func(c net.Conn) { half(c, "HTTP/1.1 20") },
		func(c net.Conn) { half(c, "HTTP/1.1 200 OK\r\nX: ") },
		func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
		nil, // SYNs are dropped
	}
	l := lab.New(t, "d1", "r1")
	d, r := l.Node("d1"), l.Node("r1")
	var b strings.Builder
	fmt.Fprintf(&b, "[[virtual_server]]\naddress = \"10.9.0.100:80\"\nlvs_method = \"NAT\"\ndelay_loop = %q\nconnect_timeout = %q\nretry = 0\nrise = 2\nfall = 2\n[virtual_server.HTTP_GET]\nurl = [{ path = \"/\" }]\n",
		interval, timeout)
	var servers []*lab.Server
	for i := range perPhase * len(phases) {
		servers = append(servers, r.Serve(uint16(first+i), "r1"))
		fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = \"%v:%d\"\n", r.Addr(), first+i)
	}
	vipd := d.Vipd(lab.VipdConf("", lab.Instance{VIPs: []netip.Addr{lab.VIP()}}) + b.String())
	vipd.WaitState("VI_1", "MASTER", 10*time.Second)
	waitStates(t, l, vipd, "UP", len(servers), 3*interval+slackO38)
	for round := range 3 {
		began := time.Now()
		for i, s := range servers {
			s.Handle(phases[i/perPhase])
		}
		r.Nft(fmt.Sprintf("table inet mute {\n chain in {\n  type filter hook input priority 0;\n  tcp dport %d-%d drop\n }\n}\n", first+4*perPhase, first+5*perPhase-1))
		waitStates(t, l, vipd, "DOWN", len(servers), 2*interval+timeout+slackO38)
		down := time.Since(began)
		time.Sleep(time.Duration(round) * interval / 3)
		began = time.Now()
		for _, s := range servers {
			s.Handle(nil)
		}
		r.Exec("nft", "delete", "table", "inet", "mute")
		// What hangs now hangs to its timeout; two good checks follow.
		waitStates(t, l, vipd, "UP", len(servers), timeout+2*interval+slackO38)
		t.Logf("round %d: all down after %v, all back after %v", round, down, time.Since(began))
	}
	s := vipd.Status()
	if i := slices.IndexFunc(s.Alarms, func(a string) bool { return !strings.HasPrefix(a, "IPVS: ") }); i >= 0 {
		t.Errorf("alarm: %s", s.Alarms[i])
	}
	for _, rs := range s.VirtualServers[0].RealServers {
		if age := time.Since(rs.Checks[0].LastRun); age > 2*interval+slackO38 {
			t.Errorf("%s was checked %v ago", rs.Address, age)
		}
	}
}

// slackO38 is what a busy machine may add.
const slackO38 = 2 * time.Second

// half says the beginning of a reply and waits until the client goes.
func half(c net.Conn, text string) {
	_, _ = io.WriteString(c, text)
	_, _ = io.Copy(io.Discard, c)
}

// waitStates waits until all servers of the first service are in a state.
func waitStates(t *testing.T, l *lab.Lab, vipd *lab.Daemon, state string, count int, limit time.Duration) {
	t.Helper()
	began, have := time.Now(), 0
	l.Eventually(limit+slackO38, fmt.Sprintf("%d servers are %s", count, state), func() bool {
		s, err := vipd.TryStatus()
		if err != nil || len(s.VirtualServers) == 0 {
			return false
		}
		have = len(lab.Filter(s.VirtualServers[0].RealServers, func(r lab.RealServerStatus) bool { return r.State == state }))
		return have == count
	})
	if took := time.Since(began); took > limit {
		t.Errorf("all %s after %v, want %v", state, took, limit)
	}
}
