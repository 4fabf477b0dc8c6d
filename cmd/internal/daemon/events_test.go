package daemon

import (
	"net/netip"
	"slices"
	"testing"

	"go.uber.org/zap"

	"vipd/cmd/internal/notify"
	"vipd/cmd/internal/notify/notifytest"
	"vipd/conf"
	"vipd/ipvs"
	"vipd/vrrp"
	"vipd/vrrp/router"
)

// What lvs_notify_fifo gets when servers fail one after the other and come back.
func TestServiceLines(t *testing.T) {
	var lines []string
	checks := &fakeChecks{}
	b := newBalancer(checks, &fakeTable{}, func(line string) { lines = append(lines, line) }, zap.NewNop())
	if err := b.Configure([]conf.VirtualServer{server(80)}); err != nil {
		t.Fatal(err)
	}
	const check22 = "TCP_CHECK 10.0.0.22:80"
	for _, step := range []struct {
		check   string
		healthy bool
	}{{check22, true}, {check21, false}, {check21, false}, {check22, false}, {check21, true}, {check22, true}} {
		checks.set(t, step.check, step.healthy)
		b.HealthChanged()
	}
	if err := b.Configure([]conf.VirtualServer{server(80)}); err != nil { // a reload says nothing
		t.Fatal(err)
	}
	want := []string{
		"VS [10.9.0.100]:tcp:80 UP", // at the start
		"RS [10.0.0.21]:tcp:80 [10.9.0.100]:tcp:80 DOWN",
		"RS [10.0.0.22]:tcp:80 [10.9.0.100]:tcp:80 DOWN",
		"VS [10.9.0.100]:tcp:80 DOWN",
		"RS [10.0.0.21]:tcp:80 [10.9.0.100]:tcp:80 UP",
		"VS [10.9.0.100]:tcp:80 UP",
		"RS [10.0.0.22]:tcp:80 [10.9.0.100]:tcp:80 UP",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
}

// With rs_init_notifies a server that is new is told of.
func TestNewServersAreTold(t *testing.T) {
	var lines []string
	b := newBalancer(&fakeChecks{}, &fakeTable{}, func(line string) { lines = append(lines, line) }, zap.NewNop())
	b.Tell(true)
	more := server(80)
	more.RealServers = append(more.RealServers, conf.RealServer{Address: netip.MustParseAddrPort("10.0.0.23:80"), Method: "DR", Weight: 1})
	for _, v := range []conf.VirtualServer{server(80), server(80), more} {
		if err := b.Configure([]conf.VirtualServer{v}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"RS [10.0.0.21]:tcp:80 [10.9.0.100]:tcp:80 UP", "RS [10.0.0.22]:tcp:80 [10.9.0.100]:tcp:80 UP",
		"VS [10.9.0.100]:tcp:80 UP", "RS [10.0.0.23]:tcp:80 [10.9.0.100]:tcp:80 UP",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
}

func TestServiceWords(t *testing.T) {
	six := serviceID{Key: ipvs.AddressKey(ipvs.UDP, netip.MustParseAddrPort("[2001:db8::1]:53"))}
	mark := serviceID{Key: ipvs.MarkKey(7, true)}
	group, marks := serviceID{Key: ipvs.Key{Protocol: ipvs.TCP}, group: "web"}, serviceID{group: "web"}
	rs := netip.MustParseAddrPort("[2001:db8::21]:5353")
	for got, want := range map[string]string{
		serviceWords(six): "[2001:db8::1]:udp:53", serverWords(serverID{six, rs}): "[2001:db8::21]:udp:5353",
		serviceWords(group): "[web]:0", serverWords(serverID{group, rs}): "[2001:db8::21]:tcp:5353",
		serviceWords(marks): "[web]:0", group.String(): "group web tcp", marks.String(): "group web",
		serviceWords(mark): "FWM 7", serverWords(serverID{mark, rs}): "[2001:db8::21]:none:5353",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The words for what becomes of an instance: a removed one is FAULT, or DELETED
// when that is asked for; priorities are told only then, and by state.
func TestEventWords(t *testing.T) {
	dir := t.TempDir()
	fifos := notify.NewFIFOs(zap.NewNop())
	fifos.Configure([]notify.FIFOConfig{{Path: dir + "/fifo", Classes: notify.VRRP}})
	defer fifos.Close()
	n := notify.New(0, fifos, zap.NewNop())
	defer n.Close(t.Context())
	o := newObserver(zap.NewNop(), n)
	named := func(name string, n conf.Notify) conf.Instance { return conf.Instance{Name: name, Notify: n} }
	stays := named("stays", conf.Notify{PriorityChanges: true})
	group := func(name string, deleted bool) conf.SyncGroup {
		return conf.SyncGroup{Name: name, Notify: conf.Notify{SayDeleted: deleted}}
	}
	o.Configure(&conf.Config{Instances: []conf.Instance{stays, named("quiet", conf.Notify{})}, SyncGroups: []conf.SyncGroup{group("G", true)}},
		[]conf.Instance{named("gone", conf.Notify{}), named("said", conf.Notify{SayDeleted: true})},
		[]conf.SyncGroup{group("ended", true), group("with its members", false), group("dissolved", true), group("dissolved silently", false)})
	end := func(name string) {
		o.Transition(router.TransitionEvent{Instance: name, From: vrrp.Master, To: vrrp.Init, Priority: 100})
	}
	o.Transition(router.TransitionEvent{Instance: "stays", From: vrrp.Init, To: vrrp.Backup, Priority: 100})
	o.Priority(router.PriorityEvent{Instance: "stays", State: vrrp.Backup, From: 100, To: 90})
	o.Priority(router.PriorityEvent{Instance: "stays", State: vrrp.Master, From: 90, To: 100})
	o.Priority(router.PriorityEvent{Instance: "stays", State: vrrp.Fault, From: 100, To: 80})
	o.Priority(router.PriorityEvent{Instance: "quiet", State: vrrp.Master, From: 90, To: 100})
	o.Priority(router.PriorityEvent{Instance: "quiet", State: vrrp.Master, From: 100, To: 100, Lesser: true})
	for _, name := range []string{"gone", "said", "stays"} {
		end(name)
	}
	o.Transition(router.TransitionEvent{Instance: "quiet", From: vrrp.Master, To: vrrp.Fault, Priority: 100})
	for _, name := range []string{"ended", "with its members", "G"} {
		o.Transition(router.TransitionEvent{Group: name, From: vrrp.Master, To: vrrp.Init})
	}
	o.Transition(router.TransitionEvent{Group: "G", From: vrrp.Init, To: vrrp.Backup})
	o.Left()
	o.Left() // once
	end("quiet")
	want := []string{
		`INSTANCE "stays" BACKUP 100`, `INSTANCE "stays" BACKUP_PRIORITY 90`, `INSTANCE "stays" MASTER_PRIORITY 100`,
		`INSTANCE "quiet" MASTER_RX_LOWER_PRI 100`, `INSTANCE "gone" FAULT 100`, `INSTANCE "said" DELETED 100`,
		`INSTANCE "stays" STOP 100`, `INSTANCE "quiet" FAULT 100`,
		`GROUP "ended" DELETED 0`, `GROUP "with its members" FAULT 0`, `GROUP "G" STOP 0`, `GROUP "G" BACKUP 0`,
		`GROUP "dissolved" DELETED 0`, `INSTANCE "quiet" STOP 100`,
	}
	if got := notifytest.Lines(t, dir+"/fifo", len(want)); !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}
