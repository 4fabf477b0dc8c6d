package conf

import (
	"fmt"
	"net/netip"
	"time"
)

// instance returns a vrrp_instance with all defaults.
func (b *builder) instance(v *values) Instance {
	in := Instance{
		Name:             v.name,
		Interface:        get[string](v, "interface"),
		VRID:             uint8(v.num("virtual_router_id")),
		AdvertInterval:   get[time.Duration](v, "advert_int"),
		DownTimerAdverts: b.global.num("vrrp_down_timer_adverts"),
		ChecksumAsV2:     get[bool](inherit("v3_checksum_as_v2", v, b.global), "v3_checksum_as_v2"),
		SkipCheckAddr:    get[bool](b.global, "vrrp_skip_check_adv_addr"),
		LowerPrioNoAdv:   get[bool](b.global, "vrrp_lower_prio_no_advert"),
		Source:           get[netip.Addr](v, "mcast_src_ip"),
		Announce:         b.announce(v),
		GARPForm:         b.form(v),
		Notify:           b.notify(v),
		Alert:            b.alert(v, alertVRRP, false),
	}
	if v.has("down_timer_adverts") {
		in.DownTimerAdverts = v.num("down_timer_adverts")
	}
	if v.has("skip_check_adv_addr") {
		in.SkipCheckAddr = get[bool](v, "skip_check_adv_addr")
	}
	if v.has("lower_prio_no_advert") {
		in.LowerPrioNoAdv = get[bool](v, "lower_prio_no_advert")
	}
	in.Unicast = b.meansUnicast(v)
	b.placeless(v, &in)
	b.priority(v, &in)
	b.timing(v, &in)
	b.addresses(v, &in)
	b.moves(v, &in)
	b.version(v, &in)
	b.accept(v, &in)
	b.authentication(v, &in)
	b.hmac(v, &in)
	b.unicast(v, &in)
	b.vmac(v, &in)
	b.groups(v, &in)
	b.router(v, &in)
	b.trackers(v, &in)
	b.untracked(v, &in)
	b.weighted(v, &in)
	b.grouped(v, &in)
	b.strict(v, &in)
	return in
}

// priority settles priority, state and nopreempt.
func (b *builder) priority(v *values, in *Instance) {
	master := get[string](v, "state") == "MASTER"
	in.Priority = 100
	switch {
	case v.has("priority"):
		in.Priority = uint8(v.num("priority"))
	case master && !v.given("priority"):
		in.Priority = 255
		b.say(Warning, v, "state", "vrrp_instance.priority/owner", "state MASTER without a priority makes the priority 255, as in keepalived",
			"255 means that this machine owns the addresses by right: nothing else can take them over while it lives and trackers do not move it.\nwrite the priority out, for example priority = 150")
	}
	in.WantMaster = master || in.Priority == 255 && !v.given("state")

	preempt := v.has("preempt") && !get[bool](v, "preempt")
	if v.has("preempt") && v.has("nopreempt") && get[bool](v, "nopreempt") == get[bool](v, "preempt") {
		b.say(Error, v, "preempt", "vrrp_instance.preempt/contradiction", "preempt and nopreempt contradict each other", "keep one of the two")
	}
	in.NoPreempt = get[bool](v, "nopreempt") || preempt
	if in.NoPreempt && (master || in.Priority == 255) {
		why, key := "state MASTER", "nopreempt"
		if !master {
			why = "priority 255"
		}
		if !v.has(key) {
			key = "preempt"
		}
		in.NoPreempt = false
		b.say(Warning, v, key, "vrrp_instance.nopreempt/state", "nopreempt has no effect with "+why,
			"this director will take over whenever it can; write state = \"BACKUP\" and a priority below 255 on all directors to keep the master where it is")
	}
}

// version settles the VRRP version and what depends on it.
func (b *builder) version(v *values, in *Instance) {
	in.Version = uint8(b.global.num("vrrp_version"))
	if in.IPv6 {
		in.Version = 3
	}
	if v.has("version") {
		in.Version = uint8(v.num("version"))
	}
	if in.IPv6 && in.Version == 2 {
		b.say(Error, v, "version", "vrrp_instance.version/ipv6", "version 2 does not carry IPv6", "VRRP version 2 (RFC 3768) is for IPv4 only; write version = 3 or leave it out")
		in.Version = 3
	}
	if get[bool](v, "v3_checksum_as_v2") && (in.IPv6 || in.Version == 2) {
		b.say(Warning, v, "v3_checksum_as_v2", "vrrp_instance.v3_checksum_as_v2/version", "has no effect on this instance", "it concerns version 3 over IPv4 only; take it out")
	}
	in.ChecksumAsV2 = in.ChecksumAsV2 && in.Version == 3 && !in.IPv6
	b.interval(v, in)
}

// interval checks advert_int against the version.
func (b *builder) interval(v *values, in *Instance) {
	if !v.has("advert_int") || v.wrong("version") || b.guessed && !v.has("version") {
		return
	}
	d := in.AdvertInterval
	written := shown(v.value("advert_int").it)
	switch {
	case in.Version == 2 && (d%time.Second != 0 || d < time.Second):
		whole := max(d.Round(time.Second)/time.Second, 1)
		b.say(Error, v, "advert_int", "vrrp_instance.advert_int/version", written+" is not possible in version 2",
			fmt.Sprintf("version 2 counts whole seconds, 1..255; write %d, or version = 3 on all directors, which goes from 0.01 to 40.95 s", whole))
	case in.Version == 3 && d > 40950*time.Millisecond:
		b.say(Error, v, "advert_int", "vrrp_instance.advert_int/version", written+" is not possible in version 3",
			"version 3 goes from 0.01 to 40.95 s in steps of 10 ms; version 2 goes up to 255 s")
	case in.Version == 3 && d%(10*time.Millisecond) != 0:
		b.say(Error, v, "advert_int", "vrrp_instance.advert_int/version", written+" is not possible in version 3",
			"version 3 goes from 0.01 to 40.95 s in steps of 10 ms; the nearest step is "+d.Round(10*time.Millisecond).String())
	}
}

// authentication settles the password.
func (b *builder) authentication(v *values, in *Instance) {
	auth := get[*values](v, "authentication")
	if auth == nil {
		return
	}
	if in.Version == 3 && !v.wrong("version") && (!b.guessed || v.has("version")) {
		detail := "VRRP version 3 (RFC 9568) has no authentication; take the table out, or write version = 2 on all directors"
		if in.IPv6 {
			detail = "VRRP over IPv6 has no authentication; take the table out"
		}
		b.say(Error, v, "authentication", "vrrp_instance.authentication/version", "passwords exist in version 2 only", detail)
	}
	in.AuthPass = get[string](auth, "auth_pass")
	if len(in.AuthPass) > 8 {
		in.AuthPass = in.AuthPass[:8]
		b.say(Warning, auth, "auth_pass", "authentication.auth_pass/truncated", "only the first 8 bytes are sent", "VRRP has room for 8 bytes, and keepalived sends no more either; shorten the password to make that visible")
	}
}

// groups settles source and multicast group.
func (b *builder) groups(v *values, in *Instance) {
	in.Group = get[netip.Addr](b.global, "vrrp_mcast_group4")
	if in.IPv6 {
		in.Group = get[netip.Addr](b.global, "vrrp_mcast_group6")
	}
	if v.has("mcast_dst_ip") {
		in.Group = get[netip.Addr](v, "mcast_dst_ip")
	}
	for _, key := range []string{"mcast_src_ip", "mcast_dst_ip", "unicast_src_ip"} {
		if a := get[netip.Addr](v, key); a.IsValid() && a.Is6() != in.IPv6 && !b.guessed {
			b.say(Error, v, key, "vrrp_instance."+key+"/family", fmt.Sprintf("%s does not fit: the addresses of this instance are %s", a, family(in.IPv6)), "write an "+family(in.IPv6)+" address, or leave it out")
		}
	}
}

// router checks that the interface is useful, and the VRID free.
func (b *builder) router(v *values, in *Instance) {
	if in.Interface == "lo" {
		b.say(Warning, v, "interface", "vrrp_instance.interface/loopback", "adverts on lo reach no other director", "name the interface that the other directors are connected to")
	}
	if in.VRID != 0 && (in.Interface != "" || in.Unicast && in.Source.IsValid()) {
		b.claim(v, in)
	}
}
