package daemon

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/ipvs/reconcile"
)

// bucketMost is how many connections a bucket of the kernel's table may have before each packet's search costs much.
const bucketMost = 8

// crowded says that the kernel's table of connections is too small, "" when it is not.
func crowded(connections, buckets int) string {
	if buckets == 0 || connections <= bucketMost*buckets {
		return ""
	}
	want := min(bits.Len(uint(connections)), 20)
	return fmt.Sprintf("IPVS: %d connections in a table of %d buckets: each packet searches through %d of them; write \"options ip_vs conn_tab_bits=%d\" into /etc/modprobe.d/ip_vs.conf, and load the module anew (or boot)",
		connections, buckets, connections/buckets, want)
}

// connectionCount adds up the connections of a reading.
func connectionCount(table *reconcile.Status) (n int) {
	for _, c := range table.Kernel.Connections {
		n += int(c.Active) + int(c.Inactive)
	}
	return n
}

// problems is everything about connections that an operator should look at.
func (s *survival) problems(table *reconcile.Status) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, what := range []string{"settings", "timeouts", "shield"} {
		if err := s.wrong[what]; err != nil {
			out = append(out, err.Error())
		}
	}
	if text := crowded(connectionCount(table), s.facts.buckets); text != "" {
		out = append(out, text)
	}
	return out
}

// tell logs what has become wrong.
func (s *survival) tell() {
	table := s.table()
	problems := s.problems(&table)
	s.mu.Lock()
	before := s.told
	s.told = problems
	s.mu.Unlock()
	for _, p := range problems {
		if !slices.ContainsFunc(before, func(b string) bool { return alike(b, p) }) {
			s.log.Warn(p)
		}
	}
}

// alike reports whether two problems differ in their figures only.
func alike(a, b string) bool {
	cut := func(s string) string {
		return string(slices.DeleteFunc([]rune(s), func(r rune) bool { return r >= '0' && r <= '9' }))
	}
	return cut(a) == cut(b)
}

// Status adds what keeps connections to a status.
func (s *survival) Status(out *status.Status, cfg *conf.Config, table *reconcile.Status) {
	out.Alarms = append(out.Alarms, s.problems(table)...)
	s.mu.Lock()
	facts := s.facts
	s.mu.Unlock()
	if facts.known {
		out.IPVS = &status.IPVS{
			TimeoutTCP: int(facts.timeouts.TCP / time.Second), TimeoutTCPFin: int(facts.timeouts.TCPFin / time.Second), TimeoutUDP: int(facts.timeouts.UDP / time.Second),
			Connections: connectionCount(table), Buckets: facts.buckets,
		}
	}
	st := s.sync.Status()
	out.Alarms = append(out.Alarms, st.Problems...)
	if st.Config == nil {
		return
	}
	d := st.Config.Daemon
	sync := &status.ConnectionSync{
		Interface: d.Interface, ID: int(d.ID), Group: d.Group.String(), Port: int(d.Port), Roles: []string{}, Peers: []status.SyncPeer{},
		Dropped: int64(st.Dropped), DelaySeconds: cfg.Global.SyncDelay.Seconds(), Since: st.Since, Problems: st.Problems,
	}
	if c := cfg.Global.SyncDaemon; c != nil { // during a reload the two may differ
		sync.Follows = c.Instance
	}
	for _, r := range st.Running {
		sync.Roles = append(sync.Roles, r.Role.String())
	}
	for _, p := range st.Peers {
		sync.Peers = append(sync.Peers, status.SyncPeer{
			Address: p.Address.String(), ID: int(p.ID), LastHeard: p.Last, Messages: int64(p.Messages), Connections: int64(p.Connections),
		})
	}
	out.Sync = sync
}
