// Package conf turns configuration files into a finished, immutable Config or
// into a list of what is wrong with them: never into something in between.
//
// Load reads the files, which are TOML with keepalived's words. The TOML library
// decodes them; an index of our own over the same bytes (index.go) knows where
// each key stands; one table, the schema, says what every key may hold. Checks,
// suggestions and the reference page all come from that table, so they cannot
// disagree. What no single key can show (two instances with one number, a port
// that direct routing cannot change) is checked while the Config is built; those
// rules are listed in build.go. Every rule has a file in testdata/bad with the
// exact text it prints.
//
// Virtual servers, of which there are hundreds and more, are read, checked and built
// one after the other, and a Loader does so only with those whose text is another one
// than the last time (parts.go).
//
// [vip_spread.NAME] has become instances like any others when Load returns
// (build_spread.go); who gets which priority is the business of conf/spread.
//
// To add a key: a line in its block in schema*.go, a field in config.go that the
// builder fills, a line in the list of its object in section*.go (TOML and Diff
// follow from it), and the files in testdata that the tests then ask for. To add a
// kind of object: a block in schema*.go, a type in config.go, its section method,
// and a line in Config.sections.
//
// The package is pure: it reads through the fs.FS it is given and has no other
// effect.
package conf
