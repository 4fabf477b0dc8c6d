// Package ipvsadvice says which promises of a configuration the kernel's IPVS settings
// do not keep, and how they would.
package ipvsadvice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vipd/conf"
)

// defaults are the kernel's values of what is read here.
var defaults = map[string]string{"conn_reuse_mode": "1", "conntrack": "0", "expire_nodest_conn": "0", "expire_quiescent_template": "0"}

// Advice returns one sentence or two for each promise that is not kept. setting returns
// the kernel's value of net.ipv4.vs.NAME, "" when it is not known: then it is the kernel's
// default. release is that of the kernel, as "6.1.0-18".
func Advice(cfg *conf.Config, setting func(name string) string, release string) []string {
	value := func(name string) string {
		for _, s := range cfg.IPVSSettings {
			if s.Name == name {
				return s.Value
			}
		}
		if v := setting(name); v != "" {
			return v
		}
		return defaults[name]
	}
	var out []string
	say := func(services []string, name, want, promise string) {
		if len(services) > 0 {
			out = append(out, fmt.Sprintf("%s: %s while net.ipv4.vs.%s is %s; set it to %s, in [ipvs_sysctl] for example", Some(services), promise, name, value(name), want))
		}
	}
	persistent := names(cfg, func(v *conf.VirtualServer) bool { return v.Persistence > 0 })
	if value("expire_quiescent_template") != "1" {
		say(persistent, "expire_quiescent_template", "1", "a client that has been at a server goes on to it for persistence_timeout, though the server is drained, in maintenance, or has weight 0")
	}
	udp := names(cfg, func(v *conf.VirtualServer) bool { return v.Protocol == "UDP" })
	if value("expire_nodest_conn") != "1" {
		say(udp, "expire_nodest_conn", "1", "a client that keeps its port loses all it sends after its server was removed, until it pauses for the kernel's UDP timeout (300 s)")
	}
	tcp := names(cfg, func(v *conf.VirtualServer) bool { return v.Protocol != "UDP" })
	switch {
	case value("conn_reuse_mode") == "0":
		say(tcp, "conn_reuse_mode", "1", "a client that uses a port again within the time the kernel remembers it is sent to the server of before, though that is drained or has failed")
	case value("conntrack") == "1" && before59(release):
		say(tcp, "conntrack", "0", "with a kernel before 5.9 ("+release+"), a client that uses a port again waits for a second: its first SYN is dropped")
	}
	return out
}

// names lists the services that are meant.
func names(cfg *conf.Config, meant func(*conf.VirtualServer) bool) []string {
	var out []string
	for i := range cfg.VirtualServers {
		if v := &cfg.VirtualServers[i]; meant(v) {
			out = append(out, v.Name)
		}
	}
	return out
}

// Some names a few of many services.
func Some(names []string) string {
	const most = 5
	text := "virtual_server " + strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

// before59 reports whether a kernel is known to be older than 5.9, which made port reuse
// and conntrack work together.
func before59(release string) bool {
	parts := strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && slices.Compare([]int{major, minor}, []int{5, 9}) < 0
}
