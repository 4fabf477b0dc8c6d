package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// buildTrackFile returns a vrrp_track_file.
func buildTrackFile(v *values) TrackFile {
	w, i := get[weight](v, "weight"), get[initFile](v, "init_file")
	return TrackFile{
		Name: v.name, Path: get[string](v, "file"), Weight: w.n, Reverse: w.reverse,
		Init: i.on, InitValue: i.value, Overwrite: i.overwrite,
	}
}

// trackProcess returns a vrrp_track_process.
func (b *builder) trackProcess(v *values) TrackProcess {
	w := get[weight](v, "weight")
	p := TrackProcess{
		Name: v.name, Argv: get[[]string](v, "process"), Match: "name", Weight: w.n, Reverse: w.reverse,
		Quorum: 1, QuorumMax: -1, ForkDelay: get[time.Duration](v, "delay"), TerminateDelay: get[time.Duration](v, "delay"),
	}
	switch {
	case v.has("param_match") && len(p.Argv) > 1:
		p.Match = get[string](v, "param_match")
	case v.has("param_match"), len(p.Argv) > 1:
		p.Match = "exact"
	case get[bool](v, "full_command"):
		p.Match = "partial"
	}
	if v.has("quorum_max") {
		p.QuorumMax = v.num("quorum_max")
		p.Quorum = min(p.Quorum, p.QuorumMax)
	}
	if v.has("quorum") {
		p.Quorum = v.num("quorum")
	}
	if p.QuorumMax >= 0 && p.Quorum > p.QuorumMax {
		b.say(Error, v, "quorum_max", "vrrp_track_process.quorum_max/contradiction",
			fmt.Sprintf("no number of processes is at least %d and at most %d", p.Quorum, p.QuorumMax), "quorum_max must not be below quorum")
	}
	if v.has("fork_delay") {
		p.ForkDelay = get[time.Duration](v, "fork_delay")
	}
	if v.has("terminate_delay") {
		p.TerminateDelay = get[time.Duration](v, "terminate_delay")
	}
	return p
}

// trackers settles the track_* lists of an instance.
func (b *builder) trackers(v *values, in *Instance) {
	in.TrackInterfaces = trackLinks(v)
	in.TrackScripts = b.trackRefs(v, "track_script", "vrrp_script", b.scripts)
	in.TrackFiles = b.trackRefs(v, "track_file", "vrrp_track_file", b.files)
	in.TrackProcesses = b.trackRefs(v, "track_process", "vrrp_track_process", b.processes)
	b.joinTracks(v, in)
	if v.has("track_src_ip") && !get[bool](v, "track_src_ip") {
		b.say(Error, v, "track_src_ip", "vrrp_instance.track_src_ip/always", "vipd never sends from an address that is not there",
			"take track_src_ip = false out; while its source address is missing the instance is in FAULT")
	}
}

// trackLinks settles track_interface.
func trackLinks(v *values) []TrackRef {
	var refs []TrackRef
	for _, t := range get[[]track](v, "track_interface") {
		refs = append(refs, TrackRef{t.name, t.weight.n, t.weight.reverse, false})
	}
	return refs
}

// trackRefs settles one list that names objects of the file.
func (b *builder) trackRefs(v *values, key, object string, defined map[string]*values) []TrackRef {
	var refs []TrackRef
	names := slices.Sorted(maps.Keys(defined))
	for _, t := range get[[]track](v, key) {
		target := defined[t.name]
		if target == nil {
			detail := "define it: [" + object + "." + t.name + "]"
			if len(names) > 0 {
				detail += "\ndefined are " + strings.Join(names[:min(len(names), 20)], ", ")
			}
			b.sayAt(Error, t.it, t.path, v.block.name+"."+key+"/unknown", fmt.Sprintf("there is no %s %q", object, t.name)+didYouMean(t.name, names), detail)
			continue
		}
		own := get[weight](target, "weight")
		w := own // what the line does not say is as in the object, "reverse" too
		if t.numbered {
			w.n = t.weight.n
		}
		if t.turned {
			w.reverse = t.weight.reverse
		}
		refs = append(refs, TrackRef{t.name, w.n, w.reverse, own.reverse && !w.reverse})
	}
	return refs
}
