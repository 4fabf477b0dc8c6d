package status

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// writeConnections tells what keeps connections, and the kernel's facts about them.
func (s *Status) writeConnections(w io.Writer, now time.Time) {
	if k := s.IPVS; k != nil {
		fmt.Fprintf(w, "\nIPVS forgets idle connections after tcp %d s, tcpfin %d s, udp %d s; %d connections in %d buckets\n",
			k.TimeoutTCP, k.TimeoutTCPFin, k.TimeoutUDP, k.Connections, k.Buckets)
	}
	c := s.Sync
	if c == nil {
		return
	}
	roles := strings.Join(c.Roles, " and ")
	if roles == "" {
		roles = "NOT RUNNING"
	}
	fmt.Fprintf(w, "connection sync on %s: %s, id %d, group %s port %d", c.Interface, roles, c.ID, c.Group, c.Port)
	if c.Follows != "" {
		fmt.Fprintf(w, ", as %s", c.Follows)
	}
	if c.Dropped > 0 {
		fmt.Fprintf(w, "; %d messages dropped", c.Dropped)
	}
	fmt.Fprintln(w)
	for _, p := range c.Peers {
		fmt.Fprintf(w, "  heard %s ago from %s: id %d, %d connections in %d messages\n", age(now, p.LastHeard), p.Address, p.ID, p.Connections, p.Messages)
	}
}
