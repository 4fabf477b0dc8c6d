package daemon

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/mail"
	"vipd/cmd/internal/notify"
	"vipd/conf"
	"vipd/healthcheck/run"
	"vipd/vrrp"
	"vipd/vrrp/router"
)

// posted gathers subjects.
type posted struct{ subjects, bodies []string }

func (p *posted) post(m mail.Message) {
	p.subjects, p.bodies = append(p.subjects, m.Subject), append(p.bodies, m.Body)
}

func (p *posted) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(p.subjects, want) {
		t.Errorf("mails\n%s\nwant\n%s", strings.Join(p.subjects, "\n"), strings.Join(want, "\n"))
	}
}

// Who asks for mail gets it, of every change of state but, with no_email_faults, those
// to FAULT; others do not, and those that a reload takes away have a last word.
func TestStatesThatAreMailed(t *testing.T) {
	var p posted
	n := notify.New(0, notify.NewFIFOs(zap.NewNop()), zap.NewNop())
	o := newObserver(zap.NewNop(), n)
	o.alerts = &alerts{post: p.post}
	cfg := &conf.Config{Instances: []conf.Instance{{Name: "A", Alert: true}, {Name: "B"}}, SyncGroups: []conf.SyncGroup{{Name: "G", Alert: true}, {Name: "A"}}}
	cfg.Global.RouterID = "R"
	o.Configure(cfg, nil, nil)
	go1 := func(instance, group string, to vrrp.State) {
		o.Transition(router.TransitionEvent{Instance: instance, Group: group, From: vrrp.Init, To: to, Reason: "because"})
	}
	go1("A", "", vrrp.Master)
	go1("B", "", vrrp.Master)
	go1("", "G", vrrp.Backup)
	go1("", "A", vrrp.Backup) // a group of the same name, that does not ask
	go1("A", "", vrrp.Fault)
	p.expect(t, "[R] VRRP Instance A - Entering MASTER state", "[R] VRRP Group G - Entering BACKUP state", "[R] VRRP Instance A - Entering FAULT state")
	if !strings.HasSuffix(p.bodies[0], "\n\nbecause\n") {
		t.Errorf("the reason is not in %q", p.bodies[0])
	}
	p = posted{}
	cfg.Global.Mail.NoFaults = true
	o.Configure(cfg, []conf.Instance{{Name: "C", Alert: true}, {Name: "D", Alert: true, Notify: conf.Notify{SayDeleted: true}}}, []conf.SyncGroup{{Name: "H", Alert: true, Notify: conf.Notify{SayDeleted: true}}})
	go1("A", "", vrrp.Fault)
	go1("C", "", vrrp.Init) // keepalived's word for it is FAULT
	go1("D", "", vrrp.Init)
	o.Left()
	go1("A", "", vrrp.Init)
	p.expect(t, "[R] VRRP Instance D - Deleted", "[R] VRRP Group H - Deleted", "[R] VRRP Instance A - Stopping")
	o.Configure(cfg, nil, nil)
	go1("C", "", vrrp.Init)
	if len(p.subjects) != 3 {
		t.Errorf("an instance that is gone is mailed: %q", p.subjects)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Servers that go and come, and what that does to the quorum, are mailed with the
// check that decided.
func TestServersThatAreMailed(t *testing.T) {
	var p posted
	checks := &fakeChecks{}
	b := newBalancer(checks, &fakeTable{}, func(string) {}, zap.NewNop())
	b.alerts = &alerts{post: p.post, router: "R"}
	v := server(80)
	v.Alert = true
	v.RealServers[0].Alert = true
	if err := b.Configure([]conf.VirtualServer{v}); err != nil {
		t.Fatal(err)
	}
	const check22 = "TCP_CHECK 10.0.0.22:80"
	for _, step := range []struct {
		check   string
		healthy bool
	}{{check22, true}, {check21, true}, {check21, false}, {check21, false}, {check22, false}, {check21, true}} {
		checks.set(t, step.check, step.healthy)
		b.HealthChanged()
	}
	if err := b.Configure([]conf.VirtualServer{v}); err != nil { // a reload says nothing
		t.Fatal(err)
	}
	p.expect(t,
		"[R] Virtualserver [10.9.0.100]:tcp:80 - UP",
		"[R] Realserver [10.0.0.21]:tcp:80 of virtual server [10.9.0.100]:tcp:80 - DOWN",
		"[R] Virtualserver [10.9.0.100]:tcp:80 - DOWN", // 22 does not ask for mail
		"[R] Realserver [10.0.0.21]:tcp:80 of virtual server [10.9.0.100]:tcp:80 - UP",
		"[R] Virtualserver [10.9.0.100]:tcp:80 - UP")
	for i, want := range []string{"Starting with quorum up 1+0=1 <= 2", "TCP CHECK failed on service", "Lost quorum 1+0=1 <= 0", "TCP CHECK succeed on service", "Gained quorum 1+0=1 <= 1"} {
		if !strings.HasPrefix(p.bodies[i], "=> "+want+" <=\n") {
			t.Errorf("body %d is %q, want %q", i, p.bodies[i], want)
		}
	}
}

// Of several checks the one that fails is named, and of those that pass the last.
func TestDecidingCheck(t *testing.T) {
	now := time.Now()
	r := &conf.RealServer{Checks: []conf.Check{{Kind: "TCP_CHECK"}, {Kind: "HTTP_GET"}, {Kind: "SSL_GET"}}}
	result := func(known, healthy bool, age time.Duration, detail string) run.Status {
		return run.Status{Known: known, Healthy: healthy, LastRun: now.Add(-age), Detail: detail}
	}
	mixed := []run.Status{result(true, true, 1, "fine"), result(true, false, 9, "refused"), result(true, false, 2, "timeout")}
	if kind, detail := deciding(r, false, mixed); kind != "HTTP_GET" || detail != "refused" {
		t.Errorf("down by %s, %s", kind, detail)
	}
	passing := []run.Status{result(true, true, 3, "a"), result(true, true, 1, "b"), result(true, true, 2, "c")}
	if kind, detail := deciding(r, true, passing); kind != "HTTP_GET" || detail != "b" {
		t.Errorf("up by %s, %s", kind, detail)
	}
	if kind, _ := deciding(&conf.RealServer{}, true, nil); kind != "" {
		t.Errorf("without a check it is up by %s", kind)
	}
}

// Where a daemon lives follows from its configuration, and what a flag says wins.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		place         conf.Place
		given         Options
		state, socket string
	}{
		{conf.Place{}, Options{}, "/run/vipd", "/run/vipd/vipd.sock"},
		{conf.Place{Instance: "blue"}, Options{}, "/run/vipd-blue", "/run/vipd-blue/vipd.sock"},
		{conf.Place{Namespace: "front"}, Options{}, "/run/vipd-front", "/run/vipd-front/vipd.sock"},
		{conf.Place{Namespace: "front", Instance: "blue", IPVS: "back"}, Options{}, "/run/vipd-front-blue", "/run/vipd-front-blue/vipd.sock"},
		{conf.Place{Instance: "blue"}, Options{StateDir: "/x"}, "/x", "/run/vipd-blue/vipd.sock"},
		{conf.Place{Instance: "blue"}, Options{Socket: "/s"}, "/run/vipd-blue", "/s"},
	} {
		o := c.given
		if o.settle(c.place, ""); o.StateDir != c.state || o.Socket != c.socket {
			t.Errorf("%+v with %+v: %s and %s, want %s and %s", c.place, c.given, o.StateDir, o.Socket, c.state, c.socket)
		}
	}
	err := moved(conf.Place{Namespace: "a"}, conf.Place{Namespace: "b", Instance: "x", FirstIPVS: true})
	if err == nil || !strings.HasPrefix(err.Error(), "net_namespace a -> b, net_namespace_ipvs none -> on, instance none -> x: a reload cannot change this") {
		t.Errorf("moved says %v", err)
	}
	if text := strayed(conf.Place{}); text != "" {
		t.Errorf("without a namespace status says %q", text)
	}
	if text := strayed(conf.Place{Namespace: "no-such"}); !strings.Contains(text, `the name "no-such" was deleted`) {
		t.Errorf("of a namespace that is gone status says %q", text)
	}
	if err := moved(conf.Place{Namespace: "a"}, conf.Place{Namespace: "a"}); err != nil {
		t.Errorf("nothing has moved, but %v", err)
	}
}

// What mail needs of a configuration arrives.
func TestMailConfig(t *testing.T) {
	m := conf.Mail{To: []string{"a@x"}, From: "b@x", Server: netip.MustParseAddr("10.0.0.5").String(), Port: 26, Helo: "h", Timeout: time.Second}
	if c := mailConfig(m); c.To[0] != "a@x" || c.From != "b@x" || c.Server != "10.0.0.5" || c.Port != 26 || c.Helo != "h" || c.Timeout != time.Second {
		t.Errorf("%+v", c)
	}
}
