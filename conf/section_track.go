package conf

import "strconv"

// section is [vrrp_script.NAME].
func (s Script) section() section {
	return table("vrrp_script", s.Name,
		setting{"script", s.Argv},
		setting{"interval", s.Interval},
		setting{"timeout", s.Timeout},
		setting{"weight", weightOf(s.Weight, s.Reverse)},
		setting{"rise", s.Rise},
		setting{"fall", s.Fall},
		setting{"init_fail", s.InitFail},
		setting{"user", s.User.String()},
	)
}

// section is [vrrp_track_file.NAME].
func (f TrackFile) section() section {
	var init any
	switch {
	case f.Init && f.Overwrite:
		init = strconv.Itoa(f.InitValue) + " overwrite"
	case f.Init:
		init = f.InitValue
	default:
		init = unwritten{}
	}
	return table("vrrp_track_file", f.Name,
		setting{"file", f.Path},
		setting{"weight", weightOf(f.Weight, f.Reverse)},
		setting{"init_file", init},
	)
}

// section is [vrrp_track_process.NAME].
func (t TrackProcess) section() section {
	return table("vrrp_track_process", t.Name,
		setting{"process", t.Argv},
		t.match(),
		setting{"weight", weightOf(t.Weight, t.Reverse)},
		setting{"quorum", t.Quorum},
		setting{"quorum_max", unless(t.QuorumMax, -1)},
		setting{"fork_delay", t.ForkDelay},
		setting{"terminate_delay", t.TerminateDelay},
	)
}

// match is the key that says how a process is recognised.
func (t TrackProcess) match() setting {
	switch {
	case t.Match == "exact" && len(t.Argv) == 1:
		return setting{"param_match", "initial"}
	case t.Match == "partial" && len(t.Argv) == 1:
		return setting{"full_command", true}
	case t.Match == "partial" || t.Match == "initial":
		return setting{"param_match", t.Match}
	}
	return setting{"param_match", unwritten{t.Match}}
}

// weightOf returns a weight as a number, or as text when its sign is turned.
func weightOf(n int, reversed bool) any {
	if reversed {
		return strconv.Itoa(n) + reverse(true)
	}
	return n
}

// reverse returns " reverse" or nothing.
func reverse(on bool) string {
	if on {
		return " reverse"
	}
	return ""
}

// String returns the user as a line, "" for nobody in particular.
func (u User) String() string {
	if u.Group == "" {
		return u.Name
	}
	return u.Name + " " + u.Group
}

// String returns the reference as a line of track_interface or track_script.
func (t TrackRef) String() string {
	line := t.Name + " weight " + strconv.Itoa(t.Weight) + reverse(t.Reverse)
	if t.Straight {
		line += " noreverse"
	}
	return line
}
