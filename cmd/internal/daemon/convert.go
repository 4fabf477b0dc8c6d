package daemon

import (
	"net/netip"
	"strconv"

	"vipd/conf"
	"vipd/garp"
	"vipd/ipvs"
	"vipd/ipvs/plan"
	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/packet"
	"vipd/vrrp/router"
)

// The functions of this file turn a finished configuration into what each
// owner of state takes. They decide nothing.

func routerInstances(cfg *conf.Config) []router.Instance {
	out := make([]router.Instance, 0, len(cfg.Instances))
	delays := cfg.SyncDelays()
	for i := range cfg.Instances {
		in := routerInstance(&cfg.Instances[i])
		in.SyncDelay = delays[in.Name]
		out = append(out, in)
	}
	return out
}

func routerInstance(c *conf.Instance) router.Instance {
	form := packet.FormPseudo
	if c.ChecksumAsV2 || c.Version == 2 {
		form = packet.FormPlain
	}
	addresses := make([]netip.Addr, len(c.VIPs))
	for i, v := range c.VIPs {
		addresses[i] = v.Prefix.Addr()
	}
	peers := make([]vrrp.Peer, len(c.Peers))
	for i, p := range c.Peers {
		peers[i] = vrrp.Peer(p)
	}
	return router.Instance{
		Config: vrrp.Config{
			Auth: auth(&c.HMAC),
			Name: c.Name, Interface: c.Interface, VRID: c.VRID, Version: c.Version, IPv6: c.IPv6,
			Priority: c.Priority, AdvertInterval: c.AdvertInterval, DownTimerAdverts: c.DownTimerAdverts,
			Grouped: c.SyncGroup != "", NoPreempt: c.NoPreempt, WantMaster: c.WantMaster, LowerPrioNoAdvert: c.LowerPrioNoAdv,
			PreemptDelay: c.PreemptDelay, LatePriority: c.LatePriority, IgnoreAdverts: c.IgnoreAdverts,
			SkipCheckAddr: c.SkipCheckAddr, Addresses: addresses, AuthPass: c.AuthPass, Form: form,
			Unicast: c.Unicast, Peers: peers, AnySource: !c.CheckUnicastSource,
			SharedMAC: c.UseVMAC != nil && !c.XmitBase,
		},
		VMAC: vmacName(c), XmitBase: c.XmitBase, DontTrack: c.DontTrackPrimary,
		Group: c.Group, SyncGroup: c.SyncGroup, Source: c.Source, UnicastTTL: c.UnicastTTL, PatchedToo: c.ChecksumAsV2 && len(peers) > 1,
		TrackInterfaces: routerTracks(c.TrackInterfaces), TrackScripts: routerTracks(c.TrackScripts),
		TrackFiles: routerTracks(c.TrackFiles), TrackProcesses: routerTracks(c.TrackProcesses),
	}
}

// authModes are the modes of auth_hmac, in conf's spelling.
var authModes = map[string]vrrp.AuthMode{
	"enforce": vrrp.AuthEnforce, "permissive": vrrp.AuthPermissive, "receive-only": vrrp.AuthReceiveOnly,
}

func auth(c *conf.HMAC) *vrrp.Auth {
	if len(c.Keys) == 0 {
		return nil
	}
	a := &vrrp.Auth{Mode: authModes[c.Mode], Keys: packet.Keys{}, Active: c.Active, Monotonic: c.Monotonic, Window: c.Window}
	for _, k := range c.Keys {
		a.Keys[k.ID] = []byte(k.Secret)
	}
	return a
}

func routerTracks(refs []conf.TrackRef) []router.Track {
	out := make([]router.Track, len(refs))
	for i, r := range refs {
		out[i] = router.Track{Name: r.Name, Weight: r.Weight, Reverse: r.Reverse}
	}
	return out
}

func hostSets(cfg *conf.Config) []host.Set {
	out := make([]host.Set, 0, 1+len(cfg.Instances))
	out = append(out, staticSet(cfg))
	for i := range cfg.Instances {
		c := &cfg.Instances[i]
		set := host.Set{Instance: c.Name, Interface: c.Interface, Source: c.Source, IPv6: c.IPv6, Owner: c.Priority == vrrp.OwnerPriority, NoAccept: c.NoAccept}
		for _, vips := range [][]conf.VIP{c.VIPs, c.Excluded} {
			for _, v := range vips {
				set.Addresses = append(set.Addresses, hostAddress(v))
			}
		}
		set.Paths = hostPaths(c.Routes, c.Rules)
		out = append(out, set)
	}
	return out
}

// scopes are the names of rtnetlink scopes that keepalived and `ip address` use.
var scopes = map[string]int{"": 0, "global": 0, "site": 200, "link": 253, "host": 254, "nowhere": 255}

func hostAddress(v conf.VIP) host.Address {
	scope, ok := scopes[v.Scope]
	if !ok {
		scope, _ = strconv.Atoi(v.Scope) // conf has checked it
	}
	return host.Address{
		Prefix: v.Prefix, Dev: v.On(), Label: v.Label, Scope: scope, Broadcast: v.Broadcast,
		NoPrefixRoute: v.NoPrefixRoute, NoTrack: v.NoTrack, Deprecated: v.Deprecated,
		PreferredLft: v.PreferredLft, Peer: v.Peer, DAD: v.DAD, Flags: addressFlags(v),
	}
}

func garpInstances(cfg *conf.Config) []garp.Instance {
	out := make([]garp.Instance, 0, len(cfg.Instances))
	for i := range cfg.Instances {
		c := &cfg.Instances[i]
		inst := garp.Instance{Name: c.Name, Interface: c.Interface, Form: garpForms[c.GARPForm], Timing: garp.Timing(c.Announce)}
		if !c.XmitBase {
			inst.Adverts = vmacName(c)
		}
		for _, vips := range [][]conf.VIP{c.VIPs, c.Excluded} {
			for _, v := range vips {
				inst.Targets = append(inst.Targets, garp.Target{Instance: c.Name, Address: v.Prefix.Addr(), Interface: v.On()})
			}
		}
		out = append(out, inst)
	}
	return out
}

// garpForms are the words of garp_form.
var garpForms = map[string]garp.Form{"request": garp.Request, "reply": garp.Reply, "both": garp.Both}

func garpGroups(cfg *conf.Config) []garp.Group {
	out := make([]garp.Group, len(cfg.GARPGroups))
	for i, g := range cfg.GARPGroups {
		out[i] = garp.Group(g)
	}
	return out
}

// protocols are the transport protocols of virtual_server, in conf's spelling.
var protocols = map[string]ipvs.Protocol{"TCP": ipvs.TCP, "UDP": ipvs.UDP, "SCTP": ipvs.SCTP}

// methods are the forwarding methods of lvs_method, in conf's spelling.
var methods = map[string]ipvs.Method{"NAT": ipvs.NAT, "DR": ipvs.DR, "TUN": ipvs.TUN}

// tunnels are the types of tunnel, and checksums what protects it, in conf's spelling.
var (
	tunnels   = map[string]ipvs.TunnelType{"": ipvs.IPIP, "gue": ipvs.GUE, "gre": ipvs.GRE}
	checksums = map[string]ipvs.TunnelFlags{"": 0, "csum": ipvs.TunnelChecksum, "remcsum": ipvs.TunnelRemoteChecksum}
)

func tunnel(t conf.Tunnel) ipvs.Tunnel {
	return ipvs.Tunnel{Type: tunnels[t.Type], Port: t.Port, Flags: checksums[t.Checksum]}
}

func serviceFlags(v *conf.VirtualServer) ipvs.Flags {
	var flags ipvs.Flags
	for _, f := range [...]struct {
		on   bool
		flag ipvs.Flags
	}{{v.OnePacket, ipvs.FlagOnePacket}, {v.Flag1, ipvs.FlagSched1}, {v.Flag2, ipvs.FlagSched2}, {v.Flag3, ipvs.FlagSched3}} {
		if f.on {
			flags |= f.flag
		}
	}
	return flags
}

func planService(v *conf.VirtualServer) plan.Service {
	keys := serviceKeys(v)
	out := plan.Service{
		Service: ipvs.Service{
			Key: keys[0], Scheduler: v.Scheduler, Flags: serviceFlags(v),
			Persistence: v.Persistence, Granularity: v.Granularity, Engine: v.PersistenceEngine,
		},
		More: keys[1:], Quorum: v.Quorum, Hysteresis: v.Hysteresis, MinUp: v.MinUp, DrainMax: v.DrainMax,
	}
	if v.Survive == "mh" {
		out.Flags |= ipvs.FlagSched2 // mh-port
	}
	if v.Sorry != nil {
		out.Sorry = &plan.Sorry{Address: v.Sorry.Address, Method: methods[v.Sorry.Method], Tunnel: tunnel(v.Sorry.Tunnel), Inhibit: v.Sorry.Inhibit}
	}
	out.Servers = make([]plan.Server, 0, len(v.RealServers))
	for i := range v.RealServers {
		r := &v.RealServers[i]
		out.Servers = append(out.Servers, plan.Server{
			Address: r.Address, Method: methods[r.Method], Tunnel: tunnel(r.Tunnel), Weight: r.Weight,
			Upper: r.UpperThreshold, Lower: r.LowerThreshold, Inhibit: r.Inhibit,
			DrainFailed: r.DrainFailed, SlowStart: r.SlowStart,
		})
	}
	return out
}
