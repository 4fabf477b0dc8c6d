package conf

// vmac settles what concerns the virtual MAC of an instance but for the links, which follow from all instances.
func (b *builder) vmac(v *values, in *Instance) {
	b.tables[in.Name] = v
	if u := get[*UseVMAC](v, "use_vmac"); u != nil {
		in.UseVMAC = u.of(in)
	}
	in.UseVMACAddr = get[bool](v, "use_vmac_addr")
	in.XmitBase = get[bool](v, "vmac_xmit_base")
	in.DontTrackPrimary = get[bool](v, "dont_track_primary")
	switch {
	case in.XmitBase && in.UseVMAC == nil && !v.wrong("use_vmac"):
		b.say(Warning, v, "vmac_xmit_base", "vrrp_instance.vmac_xmit_base/unused", "has no effect without use_vmac", "adverts leave by the interface itself anyway; take it out, or add use_vmac = true")
		in.XmitBase = false
	case in.UseVMAC != nil && in.Unicast && !in.XmitBase:
		b.say(Warning, v, "use_vmac", "vrrp_instance.vmac_xmit_base/unicast", "adverts to unicast peers cannot leave by the link with the virtual MAC",
			"the routing table decides where they leave, by the interface itself; write vmac_xmit_base = true to say so")
		in.XmitBase = true
	}
}

// of returns what was written as it is meant for an instance. The groups of a spread share what was written.
func (u UseVMAC) of(in *Instance) *UseVMAC {
	if u.short {
		u.MAC[5], u.short = in.VRID, false
	}
	if u.MAC == VirtualMAC(in.VRID, in.IPv6) {
		u.MAC = MAC{}
	}
	return &u
}

// vmacGlobals settles the settings of global_defs that concern virtual MACs.
func (b *builder) vmacGlobals() {
	g := &b.config.Global
	g.VMACPrefix = get[string](b.global, "vmac_prefix")
	g.VMACAddrPrefix = g.VMACPrefix
	if b.global.has("vmac_addr_prefix") {
		g.VMACAddrPrefix = get[string](b.global, "vmac_addr_prefix")
	}
	g.DisableLocalIGMP = get[bool](b.global, "disable_local_igmp")
}

// vmacLinks works out the links of all instances.
func (b *builder) vmacLinks() {
	b.config.placeVMACs(func(in *Instance, v *VIP, rule, message, detail string) {
		table := b.tables[in.Name]
		it, path := table.place("use_vmac")
		if v != nil {
			for _, key := range []string{"virtual_ipaddress", "virtual_ipaddress_excluded"} {
				for _, a := range get[[]vip](table, key) {
					if a.Prefix == v.Prefix {
						it, path = a.it, a.path
					}
				}
			}
		}
		b.sayAt(Error, it, path, "vrrp_instance.use_vmac/"+rule, message, detail)
	})
}

// strictVMAC names what strict mode forbids about virtual MACs.
func strictVMAC(in *Instance, breaks func(key, message, rfc string)) {
	if in.XmitBase {
		breaks("vmac_xmit_base", "adverts without the virtual MAC", "RFC 9568 §7.2 wants them sent with it")
	}
	if in.UseVMAC != nil && in.UseVMAC.MAC != (MAC{}) {
		breaks("use_vmac", "a virtual MAC of one's own", "RFC 9568 §7.3 fixes it: "+VirtualMAC(in.VRID, in.IPv6).String())
	}
}
