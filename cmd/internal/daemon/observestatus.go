package daemon

import (
	"context"
	"fmt"
	"time"

	"vipd/cmd/internal/daemon/observe"
	"vipd/cmd/internal/status"
	"vipd/ipvs/reconcile"
)

// Status implements control.Daemon. States are those that vipd would have; addresses
// and table entries are those that the kernel has.
func (o *observation) Status(context.Context) (*status.Status, error) {
	cfg, loaded, refused := o.config.get()
	if cfg == nil {
		return nil, fmt.Errorf("vipd is starting")
	}
	s := newStatus(&o.opts, o.started, cfg)
	s.Observe, s.ConfigLoaded, s.ReloadError = true, loaded, refused
	o.instances(s)
	for _, g := range o.router.GroupStatus() {
		s.SyncGroups = append(s.SyncGroups, status.SyncGroup{Name: g.Name, State: g.State.String(), Members: g.Members})
	}
	for _, c := range trackScripts(cfg) {
		s.Scripts = append(s.Scripts, status.Script{Name: c.Name, State: "UNKNOWN", Detail: "not run while observing; counts as good"})
	}
	fileStates(s, o.files.Status())
	processStates(s, o.processes.Status())
	o.virtualServers(s)
	o.sender.drops.snapshot(s.Counters)
	s.Counters["packets_for_no_instance"] = int64(o.router.Strays())
	return s, nil
}

func (o *observation) instances(s *status.Status) {
	sets := map[string][]status.Address{}
	cfg, _, _ := o.config.get()
	now := o.feed.State()
	for _, set := range hostSets(cfg) {
		for _, a := range set.Addresses {
			out := status.Address{Address: a.Prefix.String(), Interface: a.Dev}
			if now != nil {
				if dev := observe.Where(*now, a); dev != "" { // with use_vmac keepalived has it elsewhere
					out.Interface, out.Present = dev, true
				}
			}
			sets[set.Instance] = append(sets[set.Instance], out)
		}
	}
	for _, r := range o.router.Status() {
		i := instanceStatus(r)
		i.Addresses = append(i.Addresses, sets[r.Name]...)
		b := o.reporter.Beside(time.Now(), &r)
		i.Keepalived = &status.Keepalived{State: b.State, Agrees: b.Agrees, Text: b.Text, Detail: b.Detail, Differs: b.Unlike}
		if r.Waiting != "" {
			i.Notes = append(i.Notes, r.Waiting)
		}
		if r.Weights != "" {
			i.Notes = append(i.Notes, fmt.Sprintf("priority %d is changed by trackers: %s", i.Priority, r.Weights))
		}
		i.Notes = append(i.Notes, o.observer.Notes(r.Name)...)
		// Nothing was sent.
		delete(i.Counters, "adverts_sent")
		delete(i.Counters, "adverts_failed")
		s.Instances = append(s.Instances, i)
	}
}

func (o *observation) virtualServers(s *status.Status) {
	have, changes, err := o.table.Last()
	o.mu.Lock()
	v := o.view
	o.mu.Unlock()
	for i, b := range v.services {
		s.VirtualServers = append(s.VirtualServers, serviceStatus(b, v, i, reconcile.Status{Kernel: have}))
	}
	if len(v.services) == 0 {
		return
	}
	for _, line := range changes {
		if err == nil {
			line = "vipd would run: " + line
		}
		s.Alarms = append(s.Alarms, line)
	}
}
