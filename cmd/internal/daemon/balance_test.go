package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/healthcheck"
	"vipd/healthcheck/run"
	"vipd/ipvs"
	"vipd/ipvs/reconcile"
)

// fakeChecks stands for the scheduler: verdicts are set by hand, a new key
// starts with what it inherits.
type fakeChecks struct {
	states map[string]run.Status
	err    error // of the next Configure
}

func (f *fakeChecks) Configure(jobs []run.Job, stays func(string) bool) error {
	next := map[string]run.Status{}
	for key, st := range f.states {
		if stays != nil && stays(key) {
			next[key] = st
		}
	}
	for _, j := range jobs {
		st, known := f.states[j.Key]
		if !known && j.Inherit != healthcheck.Unknown {
			st = run.Status{Known: true, Inherited: true, Healthy: j.Inherit == healthcheck.Up}
		}
		next[j.Key] = st
	}
	if f.err == nil || errors.Is(f.err, run.ErrLingering) {
		f.states = next
	}
	return f.err
}

func (f *fakeChecks) Look(map[string]run.Status) map[string]run.Status { return maps.Clone(f.states) }

func (f *fakeChecks) set(t *testing.T, key string, healthy bool) {
	t.Helper()
	if _, ok := f.states[key]; !ok {
		t.Fatalf("no check %q, there are %v", key, f.keys())
	}
	f.states[key] = run.Status{Known: true, Healthy: healthy}
}

func (f *fakeChecks) keys() []string {
	var keys []string
	for k := range f.states {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

type fakeTable struct {
	mu     sync.Mutex
	want   ipvs.Table
	counts map[ipvs.Target]ipvs.Connections
}

func (f *fakeTable) Set(t ipvs.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.want = t
}

func (f *fakeTable) Refresh(context.Context) (reconcile.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return reconcile.Status{Kernel: ipvs.Snapshot{Table: f.want, Connections: f.counts}, LastRead: time.Now()}, nil
}

func server(port uint16) conf.VirtualServer {
	r := func(last byte) conf.RealServer {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), 80)
		return conf.RealServer{Address: a, Method: "DR", Weight: 1, Checks: []conf.Check{{
			Kind: "TCP_CHECK", Target: netip.AddrPortFrom(a.Addr(), port), ConnectTimeout: time.Second, DelayLoop: time.Second,
		}}}
	}
	return conf.VirtualServer{
		Address: netip.MustParseAddrPort("10.9.0.100:80"), Protocol: "TCP", Scheduler: "rr", Method: "DR", Quorum: 1,
		RealServers: []conf.RealServer{r(21), r(22)},
	}
}

const (
	check21     = "TCP_CHECK 10.0.0.21:80"
	check21port = "TCP_CHECK 10.0.0.21:81"
)

func newTestBalancer(t *testing.T, servers ...conf.VirtualServer) (*balancer, *fakeChecks, *fakeTable) {
	t.Helper()
	checks, table := &fakeChecks{}, &fakeTable{}
	b := newBalancer(checks, table, func(string) {}, zap.NewNop())
	if err := b.Configure(servers); err != nil {
		t.Fatal(err)
	}
	return b, checks, table
}

func (f *fakeTable) has(last byte) bool {
	pool := f.want[ipvs.AddressKey(ipvs.TCP, netip.MustParseAddrPort("10.9.0.100:80"))]
	_, ok := pool.Destinations[netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, last}), 80)]
	return ok
}

func TestHealthMovesServersInAndOut(t *testing.T) {
	b, checks, table := newTestBalancer(t, server(80))
	if !table.has(21) || !table.has(22) {
		t.Error("servers without a result yet are not in the table")
	}
	checks.set(t, check21, false)
	b.HealthChanged()
	if table.has(21) || !table.has(22) {
		t.Errorf("a failed server: table %v", table.want)
	}
	checks.set(t, check21, true)
	b.HealthChanged()
	if !table.has(21) {
		t.Error("a recovered server is still out")
	}
}

// O39: a server that is down stays out when its check is changed, until the new
// check has a result of its own; one that is up stays in.
func TestChangedCheckStartsWithTheServersVerdict(t *testing.T) {
	b, checks, table := newTestBalancer(t, server(80))
	checks.set(t, check21, false)
	b.HealthChanged()
	if err := b.Configure([]conf.VirtualServer{server(81)}); err != nil {
		t.Fatal(err)
	}
	if table.has(21) || !table.has(22) {
		t.Errorf("after a reload that changed the checks: table %v", table.want)
	}
	checks.set(t, check21port, true)
	b.HealthChanged()
	if !table.has(21) {
		t.Error("the new check passed and the server is still out")
	}
}

func TestEveryCheckOfAServerMustPass(t *testing.T) {
	v := server(80)
	v.RealServers[0].Checks = append(v.RealServers[0].Checks, conf.Check{
		Kind: "HTTP_GET", Target: v.RealServers[0].Address, ConnectTimeout: time.Second, DelayLoop: time.Second,
		HTTPProtocol: "1.0", URLs: []conf.URL{{Path: "/"}},
	})
	b, checks, table := newTestBalancer(t, v)
	for _, k := range checks.keys() {
		checks.set(t, k, true)
	}
	b.HealthChanged()
	if !table.has(21) {
		t.Fatal("a server whose checks all pass is out")
	}
	checks.set(t, check21, false)
	b.HealthChanged()
	if table.has(21) {
		t.Error("a server with one failed check of two is in")
	}
}

func TestRemovedServiceLeavesTheTable(t *testing.T) {
	b, _, table := newTestBalancer(t, server(80))
	if err := b.Configure(nil); err != nil {
		t.Fatal(err)
	}
	if len(table.want) != 0 {
		t.Errorf("table %v, want none", table.want)
	}
}

// A daemon that is started again after a crash does not put a dead server back
// that the crashed one had taken out; a live one is not touched.
func TestServersMissingFromTheKernelStartDown(t *testing.T) {
	v := server(80)
	found := ipvs.Table{}
	found.AddService(planService(&v).Service)
	found.AddDestination(serviceKeys(&v)[0], ipvs.Destination{Address: v.RealServers[1].Address, Method: ipvs.DR, Weight: 1})
	checks, table := &fakeChecks{}, &fakeTable{}
	b := newBalancer(checks, table, func(string) {}, zap.NewNop())
	b.Found(found)
	if err := b.Configure([]conf.VirtualServer{v}); err != nil {
		t.Fatal(err)
	}
	if table.has(21) || !table.has(22) {
		t.Errorf("after the start: table %v", table.want)
	}
	checks.set(t, check21, true)
	b.HealthChanged()
	if !table.has(21) {
		t.Error("the check passed and the server is still out")
	}
	// An empty service says nothing: then all servers are in, as at a first start.
	empty := ipvs.Table{}
	empty.AddService(planService(&v).Service)
	b = newBalancer(&fakeChecks{}, table, func(string) {}, zap.NewNop())
	b.Found(empty)
	if err := b.Configure([]conf.VirtualServer{v}); err != nil {
		t.Fatal(err)
	}
	if !table.has(21) || !table.has(22) {
		t.Errorf("with an empty service in the kernel: table %v", table.want)
	}
}

// A check that does not end must not keep the table of before; a refused set of
// checks must.
func TestTableFollowsTheChecks(t *testing.T) {
	b, checks, table := newTestBalancer(t, server(80))
	checks.err = errors.New("refused")
	if err := b.Configure(nil); !errors.Is(err, checks.err) || len(table.want) != 1 || len(b.View().services) != 1 {
		t.Errorf("refused: error %v, table %v", err, table.want)
	}
	checks.err = fmt.Errorf("%w: stuck", run.ErrLingering)
	if err := b.Configure(nil); err != nil || len(table.want) != 0 || len(b.View().services) != 0 {
		t.Errorf("lingering: error %v, table %v", err, table.want)
	}
}
