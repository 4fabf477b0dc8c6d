package lab

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Instance is a VRRP instance, to be written for either daemon: the same words
// mean the same in both.
type Instance struct {
	Name      string        // "VI_1" when empty
	Interface string        // "eth0" when empty; None: none, and the addresses are on eth0
	VRID      uint8         // 51 when 0
	Version   int           // 2 or 3; 3 when 0
	Priority  int           // 100 when 0
	Interval  time.Duration // 1 s when 0
	VIPs      []netip.Addr  // written as /32 and /128
	Excluded  []netip.Addr
	State     string // "" is left out
	NoPreempt bool
	AuthPass  string
	Peers     []string // unicast_peer, "10.9.0.2 min_ttl 254"
	Extra     []string // further "keyword value" or "keyword" lines
}

// None as Instance.Interface leaves it out.
const None = "none"

// complete fills in the defaults.
func (i Instance) complete() Instance {
	if i.Name == "" {
		i.Name = "VI_1"
	}
	if i.Interface == "" {
		i.Interface = "eth0"
	}
	if i.VRID == 0 {
		i.VRID = 51
	}
	if i.Version == 0 {
		i.Version = 3
	}
	if i.Priority == 0 {
		i.Priority = 100
	}
	if i.Interval == 0 {
		i.Interval = time.Second
	}
	return i
}

// words are the scalar settings as keyword and value, in order; a keyword alone
// has an empty value.
func (i Instance) words() [][2]string {
	var w [][2]string
	if i.Interface != None {
		w = append(w, [2]string{"interface", i.Interface})
	}
	w = append(w, [][2]string{
		{"virtual_router_id", strconv.Itoa(int(i.VRID))},
		{"version", strconv.Itoa(i.Version)},
		{"priority", strconv.Itoa(i.Priority)},
		{"advert_int", strconv.FormatFloat(i.Interval.Seconds(), 'f', -1, 64)},
	}...)
	if i.State != "" {
		w = append(w, [2]string{"state", i.State})
	}
	if i.NoPreempt {
		w = append(w, [2]string{"nopreempt", ""})
	}
	for _, e := range i.Extra {
		k, v, _ := strings.Cut(e, " ")
		w = append(w, [2]string{k, v})
	}
	return w
}

// host writes an address with the length of a host, and its device where there is no interface.
func (i Instance) host(a netip.Addr) string {
	text := netip.PrefixFrom(a, a.BitLen()).String()
	if i.Interface == None {
		text += " dev eth0"
	}
	return text
}

// KeepalivedConf writes instances for keepalived, after what goes before.
func KeepalivedConf(before string, instances ...Instance) string {
	var b strings.Builder
	b.WriteString(before + "\n")
	for _, i := range instances {
		i = i.complete()
		fmt.Fprintf(&b, "vrrp_instance %s {\n", i.Name)
		for _, w := range i.words() {
			fmt.Fprintf(&b, "    %s %s\n", w[0], w[1])
		}
		if i.AuthPass != "" {
			fmt.Fprintf(&b, "    authentication {\n        auth_type PASS\n        auth_pass %s\n    }\n", i.AuthPass)
		}
		block := func(name string, addrs []netip.Addr) {
			if len(addrs) == 0 {
				return
			}
			fmt.Fprintf(&b, "    %s {\n", name)
			for _, a := range addrs {
				fmt.Fprintf(&b, "        %s\n", i.host(a))
			}
			b.WriteString("    }\n")
		}
		if i.Peers != nil {
			fmt.Fprintf(&b, "    unicast_peer {\n        %s\n    }\n", strings.Join(i.Peers, "\n        "))
		}
		block("virtual_ipaddress", i.VIPs)
		block("virtual_ipaddress_excluded", i.Excluded)
		b.WriteString("}\n")
	}
	return b.String()
}

// VipdConf writes instances for vipd. What goes before are keys of the file
// itself; tables may follow the result.
func VipdConf(before string, instances ...Instance) string {
	var b strings.Builder
	b.WriteString(before + "\n")
	for _, i := range instances {
		i = i.complete()
		fmt.Fprintf(&b, "[vrrp_instance.%s]\n", i.Name)
		for _, w := range i.words() {
			fmt.Fprintf(&b, "%s = %s\n", w[0], tomlValue(w[1]))
		}
		list := func(name string, addrs []netip.Addr) {
			if len(addrs) == 0 {
				return
			}
			fmt.Fprintf(&b, "%s = [\n", name)
			for _, a := range addrs {
				fmt.Fprintf(&b, "  %q,\n", i.host(a))
			}
			b.WriteString("]\n")
		}
		if i.Peers != nil {
			b.WriteString("unicast_peer = [\n")
			for _, p := range i.Peers {
				fmt.Fprintf(&b, "  %q,\n", p)
			}
			b.WriteString("]\n")
		}
		list("virtual_ipaddress", i.VIPs)
		list("virtual_ipaddress_excluded", i.Excluded)
		if i.AuthPass != "" {
			fmt.Fprintf(&b, "[vrrp_instance.%s.authentication]\nauth_type = \"PASS\"\nauth_pass = %q\n", i.Name, i.AuthPass)
		}
	}
	return b.String()
}

// tomlValue writes a keyword's value: nothing is true, numbers, booleans and
// arrays are themselves, the rest is a string.
func tomlValue(v string) string {
	if v == "" {
		return "true"
	}
	if _, err := strconv.ParseFloat(v, 64); err == nil || v == "true" || v == "false" || strings.HasPrefix(v, "[") {
		return v
	}
	return strconv.Quote(v)
}
