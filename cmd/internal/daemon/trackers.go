package daemon

import (
	"vipd/cmd/internal/script"
	"vipd/cmd/internal/status"
	"vipd/conf"
	"vipd/vrrp/track"
)

func trackScripts(cfg *conf.Config) []track.Config {
	used := map[string]bool{} // a script that no instance tracks is not run
	for _, i := range cfg.Instances {
		for _, t := range i.TrackScripts {
			used[t.Name] = true
		}
	}
	var out []track.Config
	for _, s := range cfg.Scripts {
		if !used[s.Name] {
			continue
		}
		c := track.Config{
			Name: s.Name, Argv: s.Argv, Interval: s.Interval, Timeout: s.Timeout,
			Rise: s.Rise, Fall: s.Fall, InitFail: s.InitFail, Secure: cfg.Global.ScriptSecurity,
		}
		var err error
		if c.User, err = script.User(cfg.Global, s.User); err != nil {
			c.UserErr = err.Error()
		}
		out = append(out, c)
	}
	return out
}

// trackFiles are the files that an instance or a check of a server looks at: others
// are not read.
func trackFiles(cfg *conf.Config) []track.FileConfig {
	used := map[string]bool{}
	for _, i := range cfg.Instances {
		for _, t := range i.TrackFiles {
			used[t.Name] = true
		}
	}
	for _, v := range cfg.VirtualServers {
		for _, r := range v.RealServers {
			for _, c := range r.Checks {
				used[c.File] = true // "" is no name
			}
		}
	}
	var out []track.FileConfig
	for _, f := range cfg.TrackFiles {
		if used[f.Name] {
			out = append(out, track.FileConfig{Name: f.Name, Path: f.Path, Init: f.Init, InitValue: f.InitValue, Overwrite: f.Overwrite})
		}
	}
	return out
}

// trackFile tells all who look at a file of its value.
func (d *Daemon) trackFile(name string, value int) {
	d.router.TrackFile(name, value)
	d.balance.local.FileChanged(name)
}

// matches are the ways to compare a process, in conf's words.
var matches = map[string]track.Match{
	"name": track.MatchName, "exact": track.MatchExact, "partial": track.MatchPartial, "initial": track.MatchInitial,
}

// trackProcesses are the processes that an instance tracks.
func trackProcesses(cfg *conf.Config) []track.ProcessConfig {
	used := map[string]bool{}
	for _, i := range cfg.Instances {
		for _, t := range i.TrackProcesses {
			used[t.Name] = true
		}
	}
	var out []track.ProcessConfig
	for _, p := range cfg.TrackProcesses {
		if used[p.Name] {
			out = append(out, track.ProcessConfig{
				Name: p.Name, Argv: p.Argv, Match: matches[p.Match], Quorum: p.Quorum, QuorumMax: p.QuorumMax,
				ForkDelay: p.ForkDelay, TerminateDelay: p.TerminateDelay,
			})
		}
	}
	return out
}

// trackerStates fills in what status shows of trackers.
func (d *Daemon) trackerStates(s *status.Status) {
	d.scriptStates(s)
	fileStates(s, d.files.Status())
	processStates(s, d.processes.Status())
}

func fileStates(s *status.Status, files []track.FileStatus) {
	for _, f := range files {
		s.TrackFiles = append(s.TrackFiles, status.TrackFile{
			Name: f.Name, File: f.Path, Value: f.Value, Known: f.Known, Watched: f.Watched, Changed: f.Changed, Detail: f.Problem,
		})
	}
}

func processStates(s *status.Status, processes []track.ProcessStatus) {
	for _, p := range processes {
		out := status.TrackProcess{Name: p.Name, State: "UNKNOWN", Processes: p.Count, Changed: p.Changed, Source: p.Source}
		switch {
		case p.Known && p.OK:
			out.State = "OK"
		case p.Known:
			out.State = "FAILED"
		}
		if p.Waiting != "" {
			out.Detail = "waiting for " + p.Waiting
		}
		s.TrackProcesses = append(s.TrackProcesses, out)
	}
}
