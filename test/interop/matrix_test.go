package interop

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"vipd/test/lab"
)

// all are the sites of the whole table: the pairs in every combination, the
// triples in some.
func all() (list []site) {
	for _, version := range []int{2, 3} {
		for _, s := range []site{{}, {unicast: true}, {vmac: "vmac"}, {vmac: "vmac, base"}, {unicast: true, vmac: "vmac, base"}} {
			for _, group := range []bool{false, true} {
				for _, order := range []string{"kk", "vk", "kv"} {
					s.version, s.group, s.order = version, group, order
					list = append(list, s)
				}
			}
		}
	}
	for _, s := range []site{{version: 2}, {version: 3}, {version: 3, unicast: true}, {version: 3, group: true}, {version: 3, vmac: "vmac"}} {
		for _, order := range []string{"kkk", "vkk", "kvk", "kkv", "vvk", "vkv", "kvv"} {
			s.order = order
			list = append(list, s)
		}
	}
	return list
}

// alone reports whether keepalived is among itself: what others are compared with.
func (s site) alone() bool { return !strings.Contains(s.order, "v") }

// beside is the site with keepalived alone.
func (s site) beside() site {
	s.order = strings.Repeat("k", len(s.order))
	return s
}

// A result is a site after its best run.
type result struct {
	*record
	rows [][]cell
	once []string // what was wrong in another run and is not in this one
	fail string   // why there is no record
}

// attempts is how often a site is run in which something is wrong: on a busy
// machine a daemon may just have been late. A real fault comes again.
const attempts = 2

// measure runs a site, again when something is wrong.
func (s site) measure(t *testing.T, room time.Duration) *result {
	best := &result{fail: "the run did not end"}
	ever := map[string]bool{}
	for range attempts {
		var rec *record
		t.Run("run", func(t *testing.T) { rec = s.run(t) })
		if rec == nil {
			continue
		}
		res := &result{record: rec}
		for i := range s.rows() {
			res.rows = append(res.rows, rec.cells(i, room))
		}
		rec.forget()
		wrong := res.wrong()
		maps.Copy(ever, wrong)
		for _, w := range slices.Sorted(maps.Keys(wrong)) {
			t.Log(w)
		}
		if best.record == nil || len(wrong) < len(best.wrong()) {
			best = res
		}
		if len(wrong) == 0 || s.alone() {
			break
		}
	}
	for w := range best.wrong() {
		delete(ever, w)
	}
	best.once = slices.Sorted(maps.Keys(ever))
	return best
}

// wrong are the faults of a result, in words that do not depend on the run, but
// for those that are known to come from keepalived.
func (res *result) wrong() map[string]bool {
	list := map[string]bool{}
	if res.record == nil {
		return list
	}
	for i, row := range res.rows {
		for k, c := range row {
			for _, f := range c.faults {
				if res.explain(i, k, f.kind) == "" {
					r := res.site.rows()[i]
					list[strings.Join([]string{res.site.name(), r.form, r.preemption(), res.spans[k].label(), f.kind}, ", ")] = true
				}
			}
		}
	}
	for _, sp := range res.spans {
		for _, l := range sp.lines {
			list[res.site.name()+", "+sp.label()+": "+l.daemon()+" logs: "+l.plain()] = true
		}
	}
	return list
}

// measured runs sites, some at once: of version 2 more, as they wait more.
func measured(t *testing.T, sites []site, room time.Duration) map[site]*result {
	var mu sync.Mutex
	done := map[site]*result{}
	queues := map[int]chan site{2: make(chan site, len(sites)), 3: make(chan site, len(sites))}
	for _, long := range []bool{true, false} { // triples first
		for _, s := range sites {
			if long == (len(s.order) == 3) {
				queues[s.version] <- s
			}
		}
	}
	var workers sync.WaitGroup
	for version, n := range map[int]int{2: 6, 3: 4} {
		close(queues[version])
		for range n {
			workers.Go(func() {
				for s := range queues[version] {
					t.Run(s.name(), func(t *testing.T) {
						res := s.measure(t, room)
						mu.Lock()
						defer mu.Unlock()
						done[s] = res
					})
				}
			})
		}
	}
	workers.Wait()
	return done
}

// TestMatrix makes the whole table where VIPD_INTEROP_DOC names the file to
// write; else it runs a few sites in their short form.
func TestMatrix(t *testing.T) {
	file := os.Getenv("VIPD_INTEROP_DOC")
	if file == "" {
		few := []site{{version: 3, order: "vk", short: true}, {version: 3, order: "kv", short: true}, {version: 3, order: "vk", short: true, unicast: true},
			{version: 3, order: "kv", short: true, group: true}, {version: 3, order: "vk", short: true, unicast: true, vmac: "vmac, base"}, {version: 2, order: "vk", short: true}, {version: 2, order: "kv", short: true}}
		judge(t, measured(t, few, 700*time.Millisecond))
		return
	}
	sites, room := all(), 200*time.Millisecond
	if only := os.Getenv("VIPD_INTEROP_ONLY"); only != "" {
		re := regexp.MustCompile(only)
		var some []site
		for _, s := range sites {
			if re.MatchString(s.name()) {
				some = append(some, s)
			}
		}
		sites = some
	}
	if !vmacKnown(t) {
		sites = slices.DeleteFunc(sites, func(s site) bool { return s.vmac != "" && !s.alone() })
	}
	began := time.Now()
	results := measured(t, sites, room)
	text := document(lab.VipdBin(t), results, began, room)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
	judge(t, results)
}

// vmacKnown asks vipd whether it has virtual MAC addresses.
func vmacKnown(t *testing.T) bool {
	file := filepath.Join(t.TempDir(), "vmac.toml")
	s := site{version: 3, vmac: "vmac", order: "v"}
	if err := os.WriteFile(file, []byte(lab.VipdConf("", s.virtual(s.rows()[0], nil, 0, written{}))), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := exec.Command(lab.VipdBin(t), "check", "-c", file).CombinedOutput()
	return !strings.Contains(string(out), "does not support")
}
