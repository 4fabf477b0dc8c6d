package conf

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timing settles when an instance takes over and when it gives way.
func (b *builder) timing(v *values, in *Instance) {
	in.PreemptDelay = get[time.Duration](v, "preempt_delay")
	in.LatePriority = uint8(v.num("timer_expired_backup"))
	in.IgnoreAdverts = get[bool](b.global, "vrrp_owner_ignore_adverts")
	if v.has("owner_ignore_adverts") {
		in.IgnoreAdverts = get[bool](v, "owner_ignore_adverts")
	}
	void := ""
	switch {
	case in.Priority == 255:
		void = "priority 255"
	case in.WantMaster:
		void = "state MASTER"
	case in.NoPreempt:
		void = "nopreempt"
	}
	if in.PreemptDelay > 0 && void != "" {
		in.PreemptDelay = 0
		b.say(Warning, v, "preempt_delay", "vrrp_instance.preempt_delay/void", "preempt_delay has no effect with "+void,
			"as in keepalived; write state = \"BACKUP\", a priority below 255 and no nopreempt to delay the takeover from a lesser master")
	}
	if in.LatePriority > 0 && !in.NoPreempt {
		in.LatePriority = 0
		b.say(Warning, v, "timer_expired_backup", "vrrp_instance.timer_expired_backup/void", "has no effect without nopreempt",
			"a director that preempts takes the addresses back anyway; take it out, or write nopreempt = true and state = \"BACKUP\"")
	}
	if in.IgnoreAdverts && in.Priority < 255 {
		in.IgnoreAdverts = false
		if v.given("owner_ignore_adverts") {
			b.say(Warning, v, "owner_ignore_adverts", "vrrp_instance.owner_ignore_adverts/void", "has no effect below priority 255", "only the owner of the addresses can ignore the others; take it out")
		}
	}
	for _, at := range []struct {
		v   *values
		key string
	}{{v, "higher_prio_send_advert"}, {b.global, "vrrp_higher_prio_send_advert"}} {
		if at.v.has(at.key) && !get[bool](at.v, at.key) && !b.said[at.key] {
			b.said[at.key] = true
			b.say(Warning, at.v, at.key, at.v.block.name+"."+at.key+"/always", "has no effect: a last advert is always sent",
				"it makes a better director that has not heard of us announce its addresses again; take the line out")
		}
	}
}

// weighted warns of trackers that may never move the addresses.
func (b *builder) weighted(v *values, in *Instance) {
	var names []string
	for _, list := range [][]TrackRef{in.TrackInterfaces, in.TrackScripts, in.TrackFiles, in.TrackProcesses} {
		for _, t := range list {
			if t.Weight != 0 {
				names = append(names, t.Name)
			}
		}
	}
	if !in.NoPreempt || len(names) == 0 {
		return
	}
	key := "nopreempt"
	if !v.has(key) {
		key = "preempt"
	}
	b.say(Warning, v, key, "vrrp_instance.nopreempt/weight",
		fmt.Sprintf("with nopreempt on the other director, too, the weight of %s may never move the addresses", strings.Join(names, ", ")),
		"a weight only lowers the priority, and a BACKUP with nopreempt puts up with any; no file can show what the other one says, so compare both:\n"+
			"the BACKUP must not have nopreempt, and the weight must be larger than the difference of the two priorities.\n"+
			"a tracker without weight (FAULT) always moves the addresses")
}

// strict names what vrrp_strict or strict_mode forbid: it changes nothing.
func (b *builder) strict(v *values, in *Instance) {
	on := get[bool](b.global, "vrrp_strict")
	if v.has("strict_mode") {
		on = get[bool](v, "strict_mode")
	}
	if !on {
		return
	}
	breaks := func(key, message, rfc string) {
		b.say(Error, v, key, "vrrp_instance.strict_mode/rfc", "strict mode: "+message, rfc+"; change it, or take vrrp_strict or strict_mode out, which do nothing but this check")
	}
	if len(in.VIPs) == 0 && !b.guessed {
		breaks("virtual_ipaddress", "an advert without addresses", "RFC 9568 §5.2.5 wants at least one")
	}
	if in.WantMaster && in.Priority < 255 {
		breaks("state", "state MASTER without priority 255", "RFC 9568 §6.4.1 lets only the owner of the addresses start as master")
	}
	if v.given("authentication") {
		breaks("authentication", "a password", "RFC 3768 §5.3.6 took authentication out, RFC 9568 has no field for it")
	}
	if v.given("auth_hmac") {
		breaks("auth_hmac", "signed adverts", "RFC 9568 §9 has no authentication in VRRP itself")
	}
	if in.PreemptDelay > 0 {
		breaks("preempt_delay", "a delay of the preemption", "RFC 9568 §6.1 knows Preempt_Mode true or false, and no delay")
	}
	if in.LatePriority > 0 {
		breaks("timer_expired_backup", "a master that gives way to nobody", "RFC 9568 §6.4.3 leaves the state only for a better advert or at the end")
	}
	if in.DownTimerAdverts != 3 {
		breaks("down_timer_adverts", fmt.Sprintf("a takeover after %d adverts", in.DownTimerAdverts), "RFC 9568 §6.1 fixes the Active_Down_Interval at 3 adverts and the skew time")
	}
	if in.Unicast {
		breaks("unicast_peer", "adverts by unicast", "RFC 9568 §5.1 knows multicast only")
	}
	b.strictAccept(v, in, breaks)
	standard := defaultGroup4
	if in.IPv6 {
		standard = defaultGroup6
	}
	if !in.Unicast && in.Group != standard {
		breaks("mcast_dst_ip", fmt.Sprintf("adverts to %v", in.Group), fmt.Sprintf("RFC 9568 §5.1 wants them sent to %v", standard))
	}
	strictVMAC(in, breaks)
	if in.IPv6 && len(in.VIPs) > 0 && !in.VIPs[0].Prefix.Addr().IsLinkLocalUnicast() {
		breaks("virtual_ipaddress", fmt.Sprintf("%v is the first address", in.VIPs[0].Prefix.Addr()), "RFC 9568 §5.2.9 wants the link-local address first")
	}
}

// delays settles interface_up_down_delays and compares them with the instances.
func (b *builder) delays(top *values) {
	for _, d := range get[[]linkDelay](top, "interface_up_down_delays") {
		b.config.LinkDelays = append(b.config.LinkDelays, d.LinkDelay)
		for _, in := range b.config.Instances {
			limit := time.Duration(in.DownTimerAdverts-1) * in.AdvertInterval
			if in.Interface != d.Interface || d.Down == 0 || d.Down < limit {
				continue
			}
			b.sayAt(Error, d.it, d.path, "file.interface_up_down_delays/long", fmt.Sprintf("the down delay %s of %s is too long for vrrp_instance %q", shortTime(d.Down), d.Interface, in.Name),
				fmt.Sprintf("the other directors take over before this one notices: it must be below (down_timer_adverts - 1) x advert_int = %s\nthe up delay has no such limit: \"%s 0 %s\"", shortTime(limit), d.Interface, seconds(d.Up)))
			break
		}
	}
}

// seconds shows a time as keepalived writes it.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

// scheduling reads when and where the process is to run.
func (b *builder) scheduling() {
	t := &b.config.Global.Priority
	t.RTPriority, t.Nice = b.global.num("vrrp_rt_priority"), b.global.num("vrrp_priority")
	t.RTTime = b.global.num("vrrp_rlimit_rttime")
	t.CPUs = get[[]int](b.global, "vrrp_cpu_affinity")
	b.config.Global.NoSwap = get[bool](b.global, "vrrp_no_swap")
}
