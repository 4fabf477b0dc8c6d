package daemon

import (
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/vrrp/firewall"
)

// refusal holds the instances with no_accept back while packets to their
// addresses could not be refused: FAULT is better than an address that answers
// although it must not.
type refusal struct {
	block func(reasons map[string]string)

	mu    sync.Mutex // guards what follows
	names []string   // instances with no_accept
	err   error      // why it cannot be done
}

// trouble hears from the firewall.
func (r *refusal) trouble(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	r.tell()
}

// configure takes the instances of a new configuration.
func (r *refusal) configure(cfg *conf.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = nil
	for i := range cfg.Instances {
		if cfg.Instances[i].NoAccept {
			r.names = append(r.names, cfg.Instances[i].Name)
		}
	}
	r.tell()
}

// tell holds instances back, or lets them go. The caller holds the lock, so that
// the last word is the one that counts.
func (r *refusal) tell() {
	reasons := map[string]string{}
	if r.err != nil {
		for _, name := range r.names {
			reasons[name] = "no_accept is not possible: " + r.err.Error()
		}
	}
	r.block(reasons)
}

// firewallOptions returns the settings of the nftables rules, and the families in
// which addresses may have to be refused.
func firewallOptions(cfg *conf.Config) (firewall.Options, []firewall.Family) {
	f := cfg.Global.Firewall
	o := firewall.Options{Table: f.Table, Priority: int32(f.Priority), Counters: f.Counters}
	var needed []firewall.Family
	for i := range cfg.Instances {
		in := &cfg.Instances[i]
		if !in.NoAccept {
			continue
		}
		for _, v := range append(slices.Clone(in.VIPs), in.Excluded...) {
			if family := firewall.On(v.Prefix.Addr(), "").Family(); !slices.Contains(needed, family) {
				needed = append(needed, family)
			}
		}
	}
	return o, needed
}

// protect tries whether what the configuration wants refused can be, before any
// instance may come to hold it.
func (d *Daemon) protect(cfg *conf.Config) {
	options, needed := firewallOptions(cfg)
	// The error holds the instances back, by way of trouble, and is logged with their
	// state.
	_ = d.firewall.Configure(options, needed...)
	d.refusal.configure(cfg)
}

// sweepRules removes the nftables rules that a crashed predecessor left.
func (d *Daemon) sweepRules() error {
	found, err := d.firewall.Sweep()
	if err != nil {
		return fmt.Errorf("looking for nftables rules left by a crash: %w", err)
	}
	for _, t := range found {
		d.log.Warn("nftables rules were here before: removed", zap.String("table", t))
	}
	return nil
}
