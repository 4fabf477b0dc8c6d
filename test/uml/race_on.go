//go:build race

package uml

// raceEnabled says that this binary was built with -race.
const raceEnabled = true
