package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The tables of checks that ask this machine.
var (
	miscCheckBlock = &block{
		name: "MISC_CHECK", header: "[virtual_server.real_server.MISC_CHECK]",
		doc: "The server is up when a program ends with status 0 in time. At most checker_max_processes of them run at once.",
		keys: append([]*key{
			{name: "misc_path", kind: commandKind, need: true, doc: "The program with its arguments. It runs without a shell; enable_script_security applies."},
			{name: "misc_timeout", kind: timeKind, min: int64(100 * time.Millisecond), max: hour, defText: "delay_loop of the virtual server", doc: "When it takes longer it has failed, and it and its children get SIGTERM, and 2 s later SIGKILL."},
			{name: "misc_dynamic", kind: boolKind, def: false, doc: "The exit status sets the weight: 0: it is the configured one; 1: the check fails; 2..255: the check passes and the weight is the status less 2."},
			{name: "user", kind: userKind, defText: "script_user", doc: "Who it runs as: \"USER [GROUP]\" or { user = \"USER\", group = \"GROUP\" }."},
		}, withoutConnect()...),
	}
	fileCheckBlock = &block{
		name: "FILE_CHECK", header: "[virtual_server.real_server.FILE_CHECK]",
		doc: "The server is up while the number in a file is 0. A change is seen at once.",
		keys: []*key{
			{name: "track_file", kind: textKind, min: 1, max: 255, need: true, doc: "Name of a vrrp_track_file."},
			{name: "dynamic", kind: boolKind, def: false, doc: "Instead, the number times weight is added to the weight of the server, which is never below 0. With weight 0 it is as without."},
			{name: "weight", kind: weightKind, min: -weightMax, max: weightMax, defText: "that of the vrrp_track_file", note: "the number in the file is multiplied with it", doc: "The number in the file is multiplied with it; \"1 reverse\" turns the sign."},
			{name: "log_all_failures", kind: boolKind, defText: "checker_log_all_failures of global_defs", doc: "As in TCP_CHECK."},
		},
	}
)

// usualProcesses is how many programs run at once.
const usualProcesses = 64

// withoutConnect are the keys of every check but those that say how to connect.
func withoutConnect() []*key {
	out := []*key{}
	for _, k := range checkKeys() {
		switch {
		case strings.HasPrefix(k.name, "connect_"), strings.HasPrefix(k.name, "bind"), k.name == "fwmark", k.name == "delay_if_refused":
		default:
			out = append(out, k)
		}
	}
	return out
}

// program settles what is special to MISC_CHECK.
func (b *builder) program(c, _, v *values, k *Check) {
	k.Argv, k.Dynamic, k.User = get[[]string](c, "misc_path"), get[bool](c, "misc_dynamic"), get[User](c, "user")
	if k.ConnectTimeout = get[time.Duration](v, "delay_loop"); c.has("misc_timeout") {
		k.ConnectTimeout = get[time.Duration](c, "misc_timeout")
	}
}

// fileLook is how often a file is looked at beside its changes, and how long that may take.
const fileLook = time.Second

// trackedFile settles what is special to FILE_CHECK.
func (b *builder) trackedFile(c, _, _ *values, k *Check) {
	k.Retry, k.Fall, k.Rise, k.Alpha = 0, 1, 1, false
	k.DelayLoop, k.ConnectTimeout, k.DelayBeforeRetry, k.DelayIfRefused, k.Warmup = fileLook, fileLook, 0, 0, 0
	k.Dynamic, k.File = get[bool](c, "dynamic"), get[string](c, "track_file")
	if !c.has("track_file") {
		return
	}
	target := b.files[k.File]
	if target == nil {
		names := slices.Sorted(maps.Keys(b.files))
		detail := "define it: [vrrp_track_file." + k.File + "]"
		if len(names) > 0 {
			detail += "\ndefined are " + strings.Join(names[:min(len(names), 20)], ", ")
		}
		b.say(Error, c, "track_file", "FILE_CHECK.track_file/unknown", fmt.Sprintf("there is no vrrp_track_file %q", k.File)+didYouMean(k.File, names), detail)
		return
	}
	w := get[weight](target, "weight")
	if c.has("weight") {
		w = get[weight](c, "weight")
		if !k.Dynamic && !c.wrong("dynamic") {
			b.say(Warning, c, "weight", "FILE_CHECK.weight/unused", "has no effect without dynamic", "add dynamic = true, or take it out")
		}
	}
	if k.Dynamic {
		k.Weight, k.Reverse = w.n, w.reverse
	}
}
