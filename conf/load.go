package conf

import (
	"io/fs"
	"slices"
)

// Env is what Load knows about the machine and the caller beyond the files.
type Env struct {
	Hostname  string // default of router_id
	Spectator bool   // the file is only looked at: this machine need not be one of the directors of a vip_spread
	Pipes     bool   // files may be pipes, too: the caller reads once and may wait
	Dir       string // directory, absolute, that relative paths start from; "" is the root of the fs.FS
}

// Load reads the file at path and all it includes, and returns a finished
// configuration or what is wrong with it, never both: with errors the Config is
// nil and the Diagnostics hold all errors and warnings; without, the
// Diagnostics are nil and the warnings are in Config.Warnings.
//
// An absolute path is looked up from the root of fsys, so a caller that hands in
// os.DirFS("/") may pass any path; a relative one is joined to env.Dir first.
// Diagnostics show paths as they were given. Load does nothing but read files.
func Load(fsys fs.FS, path string, env Env) (*Config, Diagnostics) {
	l := &loader{fsys: fsys, env: env}
	root := &item{kind: tableItem}
	l.read(path, root, nil, span{})
	c := &checker{l}
	top := c.check(rootBlock, root, "")
	b := &builder{checker: c, config: &Config{Files: l.files}}
	b.build(top)
	diags := c.diags.sorted(l.files)
	if diags.HasErrors() {
		return nil, diags
	}
	if len(diags) > 0 {
		b.config.Warnings = slices.Clone(diags)
	}
	return b.config, nil
}
