package ipvsadvice

import (
	"strings"
	"testing"
	"time"

	"vipd/conf"
)

func TestAdvice(t *testing.T) {
	web := conf.VirtualServer{Name: "web", Protocol: "TCP"}
	shop := conf.VirtualServer{Name: "shop", Protocol: "TCP", Persistence: time.Minute}
	dns := conf.VirtualServer{Name: "dns", Protocol: "UDP"}
	for name, c := range map[string]struct {
		servers []conf.VirtualServer
		set     []conf.IPVSSetting
		kernel  map[string]string
		release string
		want    []string // what each sentence has
	}{
		"nothing to say":   {servers: []conf.VirtualServer{web}, release: "6.1.0"},
		"persistence":      {servers: []conf.VirtualServer{web, shop}, want: []string{"virtual_server shop: a client that has been at a server|expire_quiescent_template is 0; set it to 1"}},
		"UDP":              {servers: []conf.VirtualServer{web, dns}, want: []string{"virtual_server dns: a client that keeps its port|expire_nodest_conn is 0; set it to 1"}},
		"set by us":        {servers: []conf.VirtualServer{shop, dns}, set: []conf.IPVSSetting{{Name: "expire_nodest_conn", Value: "1"}, {Name: "expire_quiescent_template", Value: "1"}}},
		"set by others":    {servers: []conf.VirtualServer{shop, dns}, kernel: map[string]string{"expire_nodest_conn": "1", "expire_quiescent_template": "1"}},
		"unset by us":      {servers: []conf.VirtualServer{dns}, set: []conf.IPVSSetting{{Name: "expire_nodest_conn", Value: "0"}}, kernel: map[string]string{"expire_nodest_conn": "1"}, want: []string{"expire_nodest_conn is 0"}},
		"ports pinned":     {servers: []conf.VirtualServer{web, dns}, kernel: map[string]string{"conn_reuse_mode": "0", "expire_nodest_conn": "1"}, want: []string{"virtual_server web: a client that uses a port again|conn_reuse_mode is 0; set it to 1"}},
		"stall":            {servers: []conf.VirtualServer{web}, kernel: map[string]string{"conntrack": "1"}, release: "5.8.18-generic", want: []string{"waits for a second|conntrack is 1; set it to 0"}},
		"no stall":         {servers: []conf.VirtualServer{web}, kernel: map[string]string{"conntrack": "1"}, release: "5.10.1"},
		"release unknown":  {servers: []conf.VirtualServer{web}, kernel: map[string]string{"conntrack": "1"}, release: "?"},
		"without services": {kernel: map[string]string{"conn_reuse_mode": "0", "conntrack": "1"}, release: "4.19"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Advice(&conf.Config{VirtualServers: c.servers, IPVSSettings: c.set}, func(n string) string { return c.kernel[n] }, c.release)
			if len(got) != len(c.want) {
				t.Fatalf("got %q, want %d sentences", got, len(c.want))
			}
			for i, w := range c.want {
				for part := range strings.SplitSeq(w, "|") {
					if !strings.Contains(got[i], part) {
						t.Errorf("%q lacks %q", got[i], part)
					}
				}
			}
		})
	}
	many := make([]conf.VirtualServer, 7)
	for i := range many {
		many[i] = conf.VirtualServer{Name: "n" + string(rune('0'+i)), Protocol: "UDP"}
	}
	if got := Advice(&conf.Config{VirtualServers: many}, func(string) string { return "" }, ""); len(got) != 1 || !strings.Contains(got[0], "n0, n1, n2, n3, n4 and 2 more: ") {
		t.Errorf("many services: %q", got)
	}
}
