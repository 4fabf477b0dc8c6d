package main

import (
	"fmt"
	"time"

	cf "github.com/cloudflare/ipvs"

	"vipd/test/bench"
	"vipd/test/lab"
)

const (
	tableServices = 500
	tableServers  = 20 // of each service
	tableTrials   = 2
	reloads       = 1 // of each trial
	// reloadLimit is what keepalived 2.4.3 needs.
	reloadLimit = 200 * time.Millisecond
	memoryLimit = 100e6
)

// table measures the start of a large table, what it costs in memory, and reloads
// that change one weight.
func table(st *lab.Stage, r *bench.Report) {
	t := r.Table(fmt.Sprintf("%d services of %d servers", tableServices, tableServers), fmt.Sprintf(
		"In the user-mode kernel. %d starts of each daemon in turn, each server with a TCP_CHECK once a minute, and %d reload in each, "+
			"which changes the weight of one server: median and worst. Start: from the start of the program until the kernel has every server. "+
			"Reload: from SIGHUP until the kernel was told. What the kernel was told is what a monitor of its netlink messages (nlmon) saw within "+
			"a second of the change: calls are system calls, of which one may hold many changes. Memory: resident, of all processes of the daemon, "+
			"when all is there and reloaded.", tableTrials, reloads))
	starts, reloaded := map[string]bench.Series{}, map[string]bench.Series{}
	calls, changes, memory := map[string]int{}, map[string]int{}, map[string]int64{}
	s := newSite(st)
	s.d1.IP("link add nl0 type nlmon")
	for range tableTrials {
		for _, d := range bench.Daemons {
			f := farm{services: tableServices, servers: tableServers, delay: time.Minute, timeout: 5 * time.Second, weights: map[int]int{}}
			began := time.Now()
			p := s.start(d, f)
			starts[d] = append(starts[d], s.full(f).Sub(began))
			fmt.Printf("  %s: full after %s\n", d, bench.MS(starts[d][len(starts[d])-1]))
			time.Sleep(3 * time.Second)
			for i := range reloads {
				f.weights[(i+1)*1234] = 2 + i
				told := s.oneChange(p, f)
				reloaded[d] = append(reloaded[d], told.took)
				calls[d], changes[d] = max(calls[d], told.calls), max(changes[d], told.changes)
				fmt.Printf("  %s: reload %s, %d changes in %d calls\n", d, bench.MS(told.took), told.changes, told.calls)
			}
			s.full(f)
			memory[d] = max(memory[d], p.AllMemory())
			p.Stop(60 * time.Second)
			s.clear()
		}
	}
	t.Both("start to full table", starts).
		Want("median ≤ keepalived's", starts[bench.Vipd].Median() <= starts[bench.Keepalived].Median())
	t.Both("reload with one change", reloaded).
		Want("median ≤ 0.2 s", reloaded[bench.Vipd].Median() <= reloadLimit)
	t.Add("calls that change the table, for one change", fmt.Sprint(calls[bench.Vipd]), fmt.Sprint(calls[bench.Keepalived])).
		Want("1", calls[bench.Vipd] == 1)
	t.Add("changes in them", fmt.Sprint(changes[bench.Vipd]), fmt.Sprint(changes[bench.Keepalived])).
		Want("1", changes[bench.Vipd] == 1)
	t.Add("resident memory", megabytes(memory[bench.Vipd]), megabytes(memory[bench.Keepalived])).
		Want("≤ 100 MB", memory[bench.Vipd] <= memoryLimit)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// client opens a connection to the IPVS of the director.
func (s *site) client() cf.Client {
	var c cf.Client
	err := s.d1.Go(func() (err error) { c, err = cf.New(); return err })
	if err != nil {
		s.st.Fatalf("connecting to IPVS: %v", err)
	}
	return c
}

// full waits until the kernel has all of the farm, and returns when that was first
// seen. It looks at the last service alone until that is complete.
func (s *site) full(f farm) (at time.Time) {
	c := s.client()
	limit := time.Now().Add(2 * time.Minute)
	for {
		at = time.Now()
		if s.has(c, f, f.services-1) {
			missing := -1
			for i := range f.services {
				if !s.has(c, f, i) {
					missing = i
				}
			}
			if missing < 0 {
				return at
			}
		}
		if time.Now().After(limit) {
			s.st.Fatalf("the table is not complete after 2 minutes")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// has reports whether the kernel has a service of the farm with its servers.
func (s *site) has(c cf.Client, f farm, service int) bool {
	vip := f.vip(service)
	list, err := c.Destinations(cf.Service{Address: vip.Addr(), Port: vip.Port(), Protocol: cf.TCP, Family: cf.INET})
	if err != nil || len(list) != f.servers {
		return false // not there yet
	}
	weights := map[string]int{}
	for _, d := range list {
		weights[d.Address.String()] = int(d.Weight)
	}
	for n := service * f.servers; n < (service+1)*f.servers; n++ {
		if w, ok := weights[f.server(n).Addr().String()]; !ok || w != f.weight(n) {
			return false
		}
	}
	return true
}

// clear removes what a daemon left: keepalived kills its checker when that takes longer
// than a few seconds to give up a large table.
func (s *site) clear() { s.d1.Exec("ipvsadm", "-C") }
