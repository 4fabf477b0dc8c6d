package conf

import (
	"fmt"
	"strconv"
	"strings"
)

// IPVSSetting is one line of [ipvs_sysctl].
type IPVSSetting struct {
	Name  string // below net.ipv4.vs
	Value string // as the kernel takes it
}

// plainText is written without quotes.
type plainText string

// ipvsSysctlBlock is [ipvs_sysctl].
var ipvsSysctlBlock = &block{
	name:   "ipvs_sysctl",
	header: "[ipvs_sysctl]",
	doc:    "Settings of the kernel's IPVS, net.ipv4.vs.NAME, in the network namespace of its table. vipd sets them at the start and at a reload, in place, and gives back at its stop what was there before, after a crash at the stop of the next one; what others changed meanwhile stays. What is not listed is not touched.",
	keys: []*key{
		flagSetting("conn_reuse_mode", 3, "A client that uses a port again: 0 sends it to the server of before, though that is drained or has failed, for as long as the kernel remembers it; 1 has a new connection scheduled anew (the kernel's default); 2 and 3 also where the old one is in FIN_WAIT."),
		flagSetting("conntrack", 1, "Keep connection tracking of what is balanced, for rules that match on it. With kernels before 5.9 and conn_reuse_mode 1, a client that uses a port again then waits for a second."),
		flagSetting("expire_nodest_conn", 1, "Packets of a connection whose server was removed: 0 drops them without a word until the entry has timed out; 1 ends it at once, so that a TCP client gets a RST and the next datagram of UDP goes to another server."),
		flagSetting("expire_quiescent_template", 1, "A client of persistence_timeout whose server has weight 0: 0 sends it on to that server; 1 sends its new connections elsewhere."),
		flagSetting("sloppy_tcp", 1, "Schedule TCP connections by any packet, not only by SYN: those of a director that died go on, if the scheduler chooses the same server (mh)."),
		flagSetting("sloppy_sctp", 1, "The same for SCTP."),
		flagSetting("backup_only", 1, "A director that receives connections as a backup does not balance: two directors that are also real servers do not send packets in circles."),
		flagSetting("cache_bypass", 1, "For transparent caches: without a cache server, send to the original destination."),
		flagSetting("drop_entry", 3, "Drop entries at random when memory is short: 0 never, 1 automatically, 3 always."),
		flagSetting("drop_packet", 3, "Drop packets at random when memory is short: 0 never, 1 automatically, 3 always."),
		flagSetting("secure_tcp", 3, "A more complicated TCP state machine against floods: 0 never, 1 automatically, 3 always."),
		flagSetting("ignore_tunneled", 1, "Do not balance packets that a real server sends through a tunnel."),
		flagSetting("nat_icmp_send", 1, "Send ICMP errors for NAT when a server of none is known."),
		flagSetting("pmtu_disc", 1, "Tell clients of TUN by ICMP that their packets are too long."),
		flagSetting("schedule_icmp", 1, "Schedule ICMP errors that belong to no connection."),
		flagSetting("snat_reroute", 1, "Look up the route of NAT answers by their new source address."),
		flagSetting("sync_persist_mode", 1, "Which persistence the sync daemon sends: 0 all, 1 only that of connections that are not sent."),
		{name: "sync_refresh_period", kind: intKind, max: 86400, defText: "untouched", doc: "Seconds after which an idle connection is sent to the backup again; 0: never."},
		{name: "sync_retries", kind: intKind, max: 8, defText: "untouched", doc: "How often the sync daemon repeats a connection's state."},
		{name: "sync_threshold", kind: thresholdKind, defText: "untouched", doc: "\"FIRST EVERY\": the sync daemon sends a connection at its packet FIRST, then every EVERY packets; with EVERY 0 by sync_refresh_period."},
	},
}

// flagSetting is a setting of 0 to max.
func flagSetting(name string, max int64, doc string) *key {
	return &key{name: name, kind: intKind, max: max, defText: "untouched", doc: doc}
}

// thresholdKind is the value of sync_threshold.
var thresholdKind = &kind{"threshold", "\"FIRST EVERY\", two numbers 0..65535 of which FIRST is below EVERY unless that is 0 (\"3 0\")", []string{"type", "syntax"}, parseThreshold}

// parseThreshold reads two numbers.
func parseThreshold(f field) (any, bool) {
	s, ok := f.it.value.(string)
	if !ok {
		return f.wrongType("string")
	}
	words := strings.Fields(s)
	if len(words) != 2 {
		return f.bad("syntax", shown(f.it)+" are not two numbers")
	}
	first, err1 := strconv.ParseUint(words[0], 10, 16)
	every, err2 := strconv.ParseUint(words[1], 10, 16)
	if err1 != nil || err2 != nil || every != 0 && first >= every {
		return f.bad("syntax", shown(f.it)+" is no threshold")
	}
	return fmt.Sprintf("%d %d", first, every), true
}

// ipvsSettings settles [ipvs_sysctl].
func (b *builder) ipvsSettings(top *values) {
	v := get[*values](top, "ipvs_sysctl")
	if v == nil {
		return
	}
	for _, k := range ipvsSysctlBlock.keys {
		switch {
		case !v.has(k.name):
		case k.kind == intKind:
			b.config.IPVSSettings = append(b.config.IPVSSettings, IPVSSetting{k.name, strconv.Itoa(v.num(k.name))})
		default:
			b.config.IPVSSettings = append(b.config.IPVSSettings, IPVSSetting{k.name, get[string](v, k.name)})
		}
	}
}

// ipvsSection is [ipvs_sysctl]; none when nothing is set.
func (c *Config) ipvsSection() []section {
	if len(c.IPVSSettings) == 0 {
		return nil
	}
	s := section{header: "[ipvs_sysctl]", object: "ipvs_sysctl"}
	for _, x := range c.IPVSSettings {
		var value any = plainText(x.Value)
		if strings.Contains(x.Value, " ") {
			value = x.Value
		}
		s.settings = append(s.settings, setting{x.Name, value})
	}
	return []section{s}
}
