package daemon

import (
	"os"

	"vipd/conf"
)

// View is Load for a file that is only looked at: this machine need not be one
// of the directors that it names.
func View(path string) (*conf.Config, conf.Diagnostics) {
	// Both may be unknown: conf then says what it cannot find.
	hostname, _ := os.Hostname()
	dir, _ := os.Getwd()
	return conf.Load(os.DirFS("/"), path, conf.Env{Hostname: hostname, Dir: dir, Spectator: true, Pipes: true})
}

// LoadOnce is Load for a file that is read this once, so that it may be a pipe.
func LoadOnce(path string) (*conf.Config, conf.Diagnostics) {
	hostname, _ := os.Hostname()
	dir, _ := os.Getwd()
	return conf.Load(os.DirFS("/"), path, conf.Env{Hostname: hostname, Dir: dir, Pipes: true})
}
