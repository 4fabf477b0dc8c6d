package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"vipd/conf"
	"vipd/ipvs/shield"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
)

// guardAddresses shields the addresses of instances that are not MASTER, or have not been for long.
func (s *survival) guardAddresses(now time.Time, cfg *conf.Config, states []router.InstanceStatus, here *host.State, look bool) {
	if cfg.Global.Shield == 0 {
		s.unshield()
		return
	}
	table := shieldTable(cfg)
	armed, pending := armedAddresses(now, cfg, states, here)
	s.mu.Lock()
	s.pending, s.bare = pending, false
	s.mu.Unlock()
	if s.failed("shield") != nil && !look {
		return
	}
	err := s.shield.Want(table, armed)
	if err == nil && look {
		var gone bool
		if gone, err = s.shield.Look(); gone {
			s.log.Warn("others removed the nftables rules that hold resets back; they are put back", zap.String("table", table))
		}
	}
	if err != nil {
		err = fmt.Errorf("shield: resets cannot be held back after a takeover: %w", err)
	}
	s.note("shield", err)
}

// shieldTable is what the tables of the shield are called.
func shieldTable(cfg *conf.Config) string { return cfg.Global.Firewall.Table + "_shield" }

// unshield removes the rules, those of a predecessor too.
func (s *survival) unshield() {
	s.mu.Lock()
	bare := s.bare
	s.pending = 0
	s.mu.Unlock()
	if bare {
		return
	}
	err := s.shield.Release()
	if errors.Is(err, shield.ErrUnsupported) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("shield: %w", err)
	}
	s.note("shield", err)
	s.mu.Lock()
	s.bare = err == nil
	s.mu.Unlock()
}

// armedAddresses are those from which no reset is to be sent, and how long until that changes. An address that is on this
// machine although it is not MASTER is one of a real server: its resets are its own.
func armedAddresses(now time.Time, cfg *conf.Config, states []router.InstanceStatus, here *host.State) (out []netip.Addr, next time.Duration) {
	serving := map[netip.Addr]bool{}
	marks := false
	for i := range cfg.VirtualServers {
		for _, one := range cfg.VirtualServers[i].Services() {
			serving[one.Address.Addr()] = true
			marks = marks || one.FWMark != 0
		}
	}
	for _, st := range states {
		i := slices.IndexFunc(cfg.Instances, func(in conf.Instance) bool { return in.Name == st.Name })
		if i < 0 {
			continue
		}
		master := st.Status.State == vrrp.Master
		left := cfg.Global.Shield - now.Sub(st.Status.Since)
		if master && left <= 0 {
			continue
		}
		if master && (next == 0 || left < next) {
			next = left
		}
		for _, v := range slices.Concat(cfg.Instances[i].VIPs, cfg.Instances[i].Excluded) {
			a := v.Prefix.Addr()
			if (marks || serving[a]) && (master || !holds(here, a)) {
				out = append(out, a)
			}
		}
	}
	return out, next
}

// holds reports whether an address is on any interface.
func holds(s *host.State, a netip.Addr) bool {
	if s == nil {
		return false
	}
	for _, l := range s.Links {
		if slices.ContainsFunc(l.Addrs, func(x host.Addr) bool { return x.Prefix.Addr() == a }) {
			return true
		}
	}
	return false
}
