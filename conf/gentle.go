package conf

import (
	"strconv"
	"time"
)

// failures are the words of on_failure.
var failures = []string{"delete", "inhibit", "drain"}

// keepKeys are the keys of a virtual server that concern how servers leave.
var keepKeys = []*key{
	{name: "min_up", kind: shareKind, def: 0.0, doc: "Share of the servers, 0..1, that failed checks leave in: when they would take out more, the servers that failed last stay in, count for the quorum, and an alarm says so. Servers with weight 0 and drained ones are not counted.", differs: "keepalived takes out every server that fails."},
	{name: "drain_max", kind: timeKind, max: 31 * day, def: 10 * time.Minute, doc: "How long a server that is drained, or taken out of this file, may keep its connections; then it goes whatever it has. 0: for ever. \"vipd drain --max\" goes before it.", differs: "keepalived deletes a server that is taken out of the file with its connections."},
}

// onFailureKey is on_failure; from says where a real server takes it from.
func onFailureKey(from string) *key {
	k := &key{name: "on_failure", kind: choiceKind, words: failures, defText: or(from, "delete; with inhibit_on_failure inhibit"),
		doc: "What becomes of a server whose check fails: \"delete\" takes it out with its connections; \"inhibit\" (inhibit_on_failure) gives it weight 0, so that its connections live on; \"drain\" gives it weight 0 and takes it out when it has no connection left, or after drain_max. Under UDP it is always deleted: clients that keep their port would be sent to it for as long as they send."}
	return k
}

// slowStartKey is slow_start.
func slowStartKey(from string) *key {
	k := &key{name: "slow_start", kind: timeKind, max: day, def: time.Duration(0),
		doc: "A server that returns, or is new in a running service, comes to its weight in ten steps over this time; 0: at once. Weights of 10 and more make the steps; one of 1 has none."}
	if from != "" {
		k.def, k.defText = nil, from
	}
	return k
}

// shareKind is a part of a whole.
var shareKind = &kind{"share", "a number 0..1 (0.5)", []string{"type", "range"}, parseShare}

// parseShare reads a number from 0 to 1.
func parseShare(f field) (any, bool) {
	share := 0.0
	switch v := f.it.value.(type) {
	case int64:
		share = float64(v)
	case float64:
		share = v
	default:
		return f.wrongType("number")
	}
	if !(share >= 0 && share <= 1) {
		return f.bad("range", shown(f.it)+" is out of range")
	}
	return share, true
}

// onFailure settles what becomes of a failed server. Of on_failure and
// inhibit_on_failure the one that is nearer to the server counts.
func (b *builder) onFailure(tables ...*values) (inhibit, drain bool) {
	for _, v := range tables {
		word, inhibited := get[string](v, "on_failure"), get[bool](v, "inhibit_on_failure")
		switch {
		case v.given("on_failure"):
			if v.has("on_failure") && v.has("inhibit_on_failure") && inhibited != (word == "inhibit") {
				b.say(Error, v, "on_failure", v.block.name+".on_failure/contradiction", "inhibit_on_failure = "+strconv.FormatBool(inhibited)+" says something else", "take inhibit_on_failure out")
			}
			return word == "inhibit", word == "drain"
		case v.given("inhibit_on_failure"):
			return inhibited, false
		}
	}
	return false, false
}

// gentle checks what is said of the leaving and the return of servers.
func (b *builder) gentle(v *values, vs *VirtualServer) {
	vs.MinUp, vs.DrainMax = get[float64](v, "min_up"), get[time.Duration](v, "drain_max")
	ramps, weightless := false, true
	for _, rs := range vs.RealServers {
		ramps = ramps || rs.SlowStart > 0
		weightless = weightless && (rs.SlowStart == 0 || rs.Weight <= 1)
		if vs.Protocol == "UDP" && (rs.Inhibit || rs.DrainFailed) {
			key := "on_failure"
			if !v.given(key) {
				key = "inhibit_on_failure"
			}
			b.sayOnce(v, key, "virtual_server.on_failure/udp", "has no effect under UDP: a failed server is always deleted", "take it out")
		}
	}
	if ramps && weightless {
		b.say(Warning, v, "slow_start", "virtual_server.slow_start/weight", "has no effect: the servers have weight 1, of which there is no part", "give them higher weights, 100 each for example")
	}
	if vs.MinUp > 0 && vs.Sorry != nil {
		b.say(Warning, v, "min_up", "virtual_server.min_up/sorry", "keeps failed servers in, so that the sorry server may never come in", "leave one of min_up and sorry_server out, or make sure that the quorum is above what min_up leaves")
	}
}

// failureText is on_failure, where inhibit_on_failure does not say it.
func failureText(drain bool) any {
	if drain {
		return "drain"
	}
	return unwritten{"delete or inhibit"}
}

// unlessDrained is inhibit_on_failure, where on_failure does not say it.
func unlessDrained(drain, inhibit bool) any {
	if drain {
		return unwritten{inhibit}
	}
	return inhibit
}

// share is written as a number, unless it is 0.
func share(x float64) any { return unless(x, 0) }
