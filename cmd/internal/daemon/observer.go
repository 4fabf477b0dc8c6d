package daemon

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"vipd/cmd/internal/notify"
	"vipd/conf"
	"vipd/garp"
	"vipd/garp/engine"
	"vipd/vrrp"
	"vipd/vrrp/packet"
	"vipd/vrrp/router"
)

// noteLifetime is how long status shows what was seen once.
const noteLifetime = 5 * time.Minute

// observer turns what the router tells into log lines, notifications and notes
// for status. It implements router.Observer; nothing in it blocks.
type observer struct {
	log    *zap.Logger
	notify notifier
	alerts *alerts // nil: nothing is mailed
	master func()  // hears that an instance has become MASTER
	// changed hears of every change of state of an instance, and does not wait; nil: nobody.
	changed func()

	mu         sync.Mutex // guards all following fields
	vrids      map[string]uint8
	known      map[string]conf.Notify
	gone       map[string]bool        // instances that a reload takes away
	goneGroups map[string]conf.Notify // sync groups that it takes away and that have not said so
	notes      map[string][]seenNote  // by instance
}

// notifier runs the commands of events and writes them to FIFOs.
type notifier interface {
	Configure(kind string, commands map[string]notify.Commands)
	Notify(e notify.Event)
}

// keepalived's words for what a notification is about.
const (
	kindInstance = "INSTANCE"
	kindGroup    = "GROUP"
)

type seenNote struct {
	text string
	at   time.Time
}

func newObserver(log *zap.Logger, n notifier) *observer {
	return &observer{log: log, notify: n, vrids: map[string]uint8{}, notes: map[string][]seenNote{}}
}

// Configure takes a new configuration, and the instances and sync groups that are
// leaving and may still have something to say.
func (o *observer) Configure(cfg *conf.Config, leaving []conf.Instance, groups []conf.SyncGroup) {
	instances := cfg.Instances
	commands := make(map[string]notify.Commands, len(instances))
	vrids := make(map[string]uint8, len(instances))
	known, gone := make(map[string]conf.Notify, len(instances)), make(map[string]bool, len(leaving))
	for _, i := range append(slices.Clone(leaving), instances...) {
		commands[i.Name] = notifyCommands(cfg.Global, i.Notify)
		vrids[i.Name] = i.VRID
		known[i.Name] = i.Notify
	}
	for _, i := range leaving {
		gone[i.Name] = true
	}
	o.notify.Configure(kindInstance, commands)
	grouped := make(map[string]notify.Commands, len(cfg.SyncGroups))
	goneGroups := make(map[string]conf.Notify, len(groups))
	for _, sg := range append(slices.Clone(groups), cfg.SyncGroups...) {
		grouped[sg.Name] = notifyCommands(cfg.Global, sg.Notify)
	}
	for _, sg := range groups {
		goneGroups[sg.Name] = sg.Notify
	}
	o.notify.Configure(kindGroup, grouped)
	if o.alerts != nil {
		o.alerts.Configure(cfg, leaving, groups)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.vrids, o.known, o.gone, o.goneGroups = vrids, known, gone, goneGroups
	for name := range o.notes {
		if _, ok := vrids[name]; !ok {
			delete(o.notes, name)
		}
	}
}

// Transition implements router.Observer.
func (o *observer) Transition(t router.TransitionEvent) {
	line := o.log.Info
	if t.To == vrrp.Fault {
		line = o.log.Warn
	}
	o.mu.Lock()
	vrid, gone, deleted := o.vrids[t.Instance], o.gone[t.Instance], o.known[t.Instance].SayDeleted
	if n, leaves := o.goneGroups[t.Group]; t.Group != "" {
		gone, deleted = leaves, n.SayDeleted
		delete(o.goneGroups, t.Group)
	}
	o.mu.Unlock()
	if t.To == vrrp.Master && t.Instance != "" && o.master != nil {
		o.master()
	}
	if t.Instance != "" && o.changed != nil {
		o.changed()
	}
	state := t.To.String()
	switch {
	case t.To == vrrp.Init && gone && deleted:
		state = notify.Deleted
	case t.To == vrrp.Init && gone: // keepalived's word for it
		state = vrrp.Fault.String()
	case t.To == vrrp.Init:
		state = notify.Stop
	}
	if t.Group != "" {
		line(fmt.Sprintf("sync group %s -> %s", t.From, t.To), zap.String("group", t.Group), zap.String("reason", t.Reason))
		o.notify.Notify(notify.Event{Kind: kindGroup, Name: t.Group, State: state})
		o.mail(kindGroup, t.Group, state, t.Reason)
		return
	}
	line(fmt.Sprintf("%s -> %s", t.From, t.To), zap.String("instance", t.Instance), zap.Uint8("vrid", vrid),
		zap.Uint8("priority", t.Priority), zap.String("reason", t.Reason))
	o.notify.Notify(notify.Event{Kind: kindInstance, Name: t.Instance, State: state, Priority: int(t.Priority)})
	o.mail(kindInstance, t.Instance, state, t.Reason)
}

// mail hands a change of state to the alerts.
func (o *observer) mail(kind, name, state, reason string) {
	if o.alerts != nil {
		o.alerts.State(kind, name, state, reason)
	}
}

// Left reports the sync groups that a reload has taken away while their members go
// on, as far as notify_deleted asks for that: nothing else has happened to them.
func (o *observer) Left() {
	o.mu.Lock()
	left := o.goneGroups
	o.goneGroups = nil
	o.mu.Unlock()
	for name, n := range left {
		if n.SayDeleted {
			o.notify.Notify(notify.Event{Kind: kindGroup, Name: name, State: notify.Deleted})
			o.mail(kindGroup, name, notify.Deleted, "")
		}
	}
}

// Priority implements router.Observer.
func (o *observer) Priority(p router.PriorityEvent) {
	o.mu.Lock()
	changes := o.known[p.Instance].PriorityChanges
	o.mu.Unlock()
	e := notify.Event{Kind: kindInstance, Name: p.Instance, Priority: int(p.To)}
	switch {
	case p.Lesser:
		e.State = notify.LowerPri
		o.notify.Notify(e)
		return
	case !changes:
	case p.State == vrrp.Master:
		e.State = notify.MasterPriority
	case p.State == vrrp.Backup:
		e.State = notify.BackupPriority
	}
	if e.State != "" {
		o.notify.Notify(e)
	}
	line, reason := o.log.Info, p.Weights
	if p.To < p.From {
		line = o.log.Warn
	}
	if reason == "" {
		reason = "no tracker changes it any more"
	}
	line(fmt.Sprintf("effective priority %d -> %d", p.From, p.To), zap.String("instance", p.Instance), zap.String("reason", reason))
}

// dropTexts say to the operator what a dropped advert means.
var dropTexts = map[packet.DropReason]string{
	packet.DropForeign:      "VRID conflict with %s: it uses our virtual_router_id for other addresses; give one of the two another one",
	packet.DropAuthType:     "advert from %s dropped: its authentication type is not ours; compare authentication on both",
	packet.DropAuthData:     "advert from %s dropped: wrong password; compare auth_pass on both",
	packet.DropInterval:     "advert from %s dropped: its advert_int is not ours; with version 2 both must be equal",
	packet.DropWrongVersion: "advert from %s dropped: it is of another VRRP version; compare version on both",
	packet.DropTTL:          "advert from %s dropped: its TTL is not 255, so it was routed or forged",
	packet.DropChecksum:     "advert from %s dropped: its checksum is wrong with and without a pseudo-header; it was damaged on the way, or its sender is faulty",
	packet.DropOverrun:      "advert from %s dropped: more packets arrive than can be handled; look for a flood of IP protocol 112",
	packet.DropIntervalZero: "advert from %s dropped: its interval is 0",
	packet.DropCount:        "advert from %s dropped: it counts no addresses but has bytes for some; its sender is faulty",
	packet.DropLength:       "advert from %s dropped: it is not as long as its address count demands; it was damaged on the way, or its sender is faulty",
	packet.DropShort:        "advert from %s dropped: it is too short; it was damaged on the way, or its sender is faulty",
	packet.DropVersion:      "advert from %s dropped: it is neither VRRP version 2 nor 3 (CARP uses the same protocol number)",
	packet.DropType:         "advert from %s dropped: it is a VRRP message of an unknown type; its sender is faulty",
	packet.DropOwner:        "advert from %s ignored: it claims addresses that we own (owner_ignore_adverts)",
	packet.DropUnsigned:     "advert from %s dropped: it is not signed; give that director auth_hmac with our keys, or set mode = \"permissive\" here until it has",
	packet.DropSigned:       "advert from %s dropped: it is signed (auth_hmac), and we have no keys; set auth_hmac here too",
	packet.DropTrailer:      "advert from %s dropped: its signature is of an unknown kind; its sender is faulty, or newer than this version",
	packet.DropKeyID:        "advert from %s dropped: it is signed with a key whose id is not in auth_hmac here; list that key here before it becomes active there",
	packet.DropHMAC:         "advert from %s dropped: its signature is wrong; compare the keys of auth_hmac on both, or somebody forges adverts",
	packet.DropStale:        "advert from %s dropped: it was signed at another time than ours by more than time_window; set the clocks of both (NTP), or somebody replays adverts",
	packet.DropReplay:       "advert from %s dropped: it was signed earlier than one that was heard already; somebody replays adverts, or the clock there was set back",
	packet.DropNotPeer:      "advert from %s dropped: it is none of the unicast peers; add it to unicast_peer, or find out who pretends to be a director",
	packet.DropTTLRange:     "advert from %s dropped: its TTL is outside min_ttl..max_ttl of that unicast_peer; the way to it has changed, or it is forged",
	packet.DropByMulticast:  "advert from %s arrived by multicast, unicast configured: here unicast_peer is set; set it on that director too, or take it out here",
	packet.DropByUnicast:    "advert from %s arrived by unicast, multicast configured: that director has unicast_peer; set it here too, or take it out there",
	packet.DropTwin:         "advert dropped that another machine sent from our own address %s: each takes itself for the master; give one of them another address (\"arping -D\" finds the other), or a loop in the network sends our frames back",
	packet.DropUnknownVRID:  "advert from %s for a virtual_router_id that is not configured here",
}

// dropText says what a dropped advert means.
func dropText(reason packet.DropReason, src netip.Addr) string {
	text, ok := dropTexts[reason]
	if !ok {
		text = "advert from %s dropped: " + reason.String()
	}
	return fmt.Sprintf(text, src)
}

// usual reports whether drops for the reason are seen in a healthy network too.
func usual(reason packet.DropReason) bool {
	switch reason {
	case packet.DropUnknownVRID, packet.DropOwnSource, packet.DropNotRunning, packet.DropInterface, packet.DropDestination:
		return true
	}
	return false
}

// Dropped implements router.Observer.
func (o *observer) Dropped(d router.Drop) {
	text := dropText(d.Reason, d.Source)
	if d.Accepted {
		text = strings.Replace(text, " dropped: ", " accepted, as auth_hmac has not mode = \"enforce\": ", 1)
	}
	if usual(d.Reason) {
		o.log.Debug(text, zap.String("instance", d.Instance))
		return
	}
	o.log.Warn(text, zap.String("instance", d.Instance), zap.Uint64("count", d.Count))
	o.remember(d.Instance, text)
}

// Note implements router.Observer.
func (o *observer) Note(n router.Note) {
	o.log.Warn(n.Text, zap.String("instance", n.Instance))
	o.remember(n.Instance, n.Text)
}

func (o *observer) remember(instance, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	list := slices.DeleteFunc(o.notes[instance], func(s seenNote) bool {
		return s.text == text || now.Sub(s.at) > noteLifetime
	})
	const most = 10
	if len(list) >= most {
		list = list[1:]
	}
	o.notes[instance] = append(list, seenNote{text, now})
}

// Notes returns what was seen of an instance in the last minutes.
func (o *observer) Notes(instance string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	now := time.Now()
	for _, s := range o.notes[instance] {
		if now.Sub(s.at) <= noteLifetime {
			out = append(out, fmt.Sprintf("%s (%s ago)", s.text, now.Sub(s.at).Round(time.Second)))
		}
	}
	return out
}

// Source implements router.Announcer.
func (a announcer) Source(instance, iface string, addr netip.Addr) {
	a.Once(garp.Target{Instance: instance, Address: addr, Interface: iface})
}

// announcer adapts the announcement engine to the router's port.
type announcer struct{ *engine.Engine }

// Announce implements router.Announcer.
func (a announcer) Announce(instance string, b vrrp.Burst) {
	burst := garp.BurstMaster
	if b == vrrp.BurstLowerPrio {
		burst = garp.BurstLowerPrio
	}
	a.Engine.Announce(instance, burst)
}
