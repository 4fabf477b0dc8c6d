package conf

import "strconv"

// weight writes a weight.
func (p *printer) weight(n int, reversed bool) {
	if reversed {
		p.text("weight", strconv.Itoa(n)+reverse(true))
	} else {
		p.num("weight", n)
	}
}

// user writes who a command runs as, unless that is nobody in particular.
func (p *printer) user(key string, u User) { p.text(key, u.String()) }

// String returns the user as a line, "" for nobody in particular.
func (u User) String() string {
	if u.Group == "" {
		return u.Name
	}
	return u.Name + " " + u.Group
}

// trackFile writes a vrrp_track_file.
func (p *printer) trackFile(f TrackFile) {
	p.table("[" + join("vrrp_track_file", f.Name) + "]")
	p.text("file", f.Path)
	p.weight(f.Weight, f.Reverse)
	switch {
	case f.Init && f.Overwrite:
		p.text("init_file", strconv.Itoa(f.InitValue)+" overwrite")
	case f.Init:
		p.num("init_file", f.InitValue)
	}
}

// trackProcess writes a vrrp_track_process.
func (p *printer) trackProcess(t TrackProcess) {
	p.table("[" + join("vrrp_track_process", t.Name) + "]")
	p.command("process", t.Argv)
	switch {
	case t.Match == "exact" && len(t.Argv) == 1:
		p.text("param_match", "initial")
	case t.Match == "partial" && len(t.Argv) == 1:
		p.flag("full_command", true)
	case t.Match == "partial" || t.Match == "initial":
		p.text("param_match", t.Match)
	}
	p.weight(t.Weight, t.Reverse)
	p.num("quorum", t.Quorum)
	if t.QuorumMax >= 0 {
		p.num("quorum_max", t.QuorumMax)
	}
	p.time("fork_delay", t.ForkDelay)
	p.time("terminate_delay", t.TerminateDelay)
}
