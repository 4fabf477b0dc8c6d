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
	return new(Loader).Load(fsys, path, env)
}

// Loader loads a configuration again and again. What has not changed since the last time
// is not made anew: the virtual servers of two configurations then share their parts, and
// Diff, among others, need not compare those. The zero value is ready for use, by one
// goroutine at a time.
type Loader struct {
	last memory // of the last configuration without errors
}

// Load does what the function Load does, and its results are the same.
func (l *Loader) Load(fsys fs.FS, path string, env Env) (*Config, Diagnostics) {
	in := &loader{fsys: fsys, env: env, texts: map[string]string{}}
	b, diags := in.load(path, &l.last)
	if in.whole {
		in = &loader{fsys: fsys, env: env, texts: in.texts, whole: true}
		b, diags = in.load(path, &memory{})
	}
	if diags.HasErrors() {
		return nil, diags
	}
	l.last = b.memory()
	if len(diags) > 0 {
		b.config.Warnings = slices.Clone(diags)
	}
	return b.config, nil
}

// load reads, checks and builds. When l.whole is set by that it is to be done again.
func (l *loader) load(path string, last *memory) (*builder, Diagnostics) {
	root, whole := &item{kind: tableItem}, l.whole
	l.read(path, root, nil, span{})
	b := &builder{checker: &checker{l}, config: &Config{Files: l.files}, last: last}
	if l.whole == whole {
		b.build(b.check(rootBlock, root, ""))
	}
	return b, b.diags.sorted(l.files)
}
