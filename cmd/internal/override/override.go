// Package override keeps what operators have told about single servers: drain,
// maintenance, weight. It outlives reloads and restarts in a file of the state
// directory.
package override

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"vipd/ipvs"
)

// Kind is what a server was told.
type Kind string

// The kinds of overrides; a server may have one of each.
const (
	Drain       Kind = "drain"       // no new connections; out when it has none
	Maintenance Kind = "maintenance" // as Drain, and nobody is told of its health
	Weight      Kind = "weight"      // another weight than the configured one
)

// Record is one override of one server in one service.
type Record struct {
	Kind    Kind      `json:"kind"`
	Service string    `json:"service"` // as ipvs.Key writes it, or "group NAME PROTOCOL"
	Server  string    `json:"server"`  // address and port
	Weight  int       `json:"weight"`  // of kind Weight, 0..MaxWeight
	Until   time.Time `json:"until,omitzero"`
	By      string    `json:"by"` // who said so
	At      time.Time `json:"at"`
}

// Same reports whether both are about the same thing of the same server.
func (r Record) Same(o Record) bool {
	return r.Kind == o.Kind && r.Service == o.Service && r.Server == o.Server
}

// valid checks that the record names a server and a service, or a group of services.
func (r Record) valid() error {
	if !strings.HasPrefix(r.Service, "group ") {
		if _, err := ipvs.ParseKey(r.Service); err != nil {
			return err
		}
	}
	if _, err := netip.ParseAddrPort(r.Server); err != nil {
		return fmt.Errorf("parsing server %q: %w", r.Server, err)
	}
	return nil
}

// file is what is written.
type file struct {
	Version   int      `json:"version"`
	Overrides []Record `json:"overrides"`
}

// version is that of the file's form.
const version = 1

// MaxWeight is the greatest weight of a server that the kernel takes.
const MaxWeight = 1<<31 - 1

// Parse reads the text of a file. Anything that cannot be meant so is an error.
func Parse(text []byte) ([]Record, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("reading overrides: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading overrides: there is something behind the end")
	}
	if f.Version != version {
		return nil, fmt.Errorf("reading overrides: version %d is not %d", f.Version, version)
	}
	for i, r := range f.Overrides {
		if err := r.valid(); err != nil {
			return nil, fmt.Errorf("reading overrides: entry %d: %w", i+1, err)
		}
		switch {
		case r.Kind != Drain && r.Kind != Maintenance && r.Kind != Weight:
			return nil, fmt.Errorf("reading overrides: entry %d: kind %q is none of drain, maintenance, weight", i+1, r.Kind)
		case r.Weight < 0 || r.Weight > MaxWeight:
			return nil, fmt.Errorf("reading overrides: entry %d: weight %d is not in 0..%d", i+1, r.Weight, MaxWeight)
		}
		for _, o := range f.Overrides[:i] {
			if r.Same(o) {
				return nil, fmt.Errorf("reading overrides: entry %d: %s of %s in %s is there twice", i+1, r.Kind, r.Server, r.Service)
			}
		}
	}
	return f.Overrides, nil
}

// Load reads the file; one that is not there is empty. One that cannot be read is
// renamed to NAME.bad, and the error says so.
func Load(name string) ([]Record, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Record
	if err == nil {
		all, err = Parse(b)
	}
	if err == nil {
		return all, nil
	}
	aside := name + ".bad"
	if rename := os.Rename(name, aside); rename != nil {
		return nil, fmt.Errorf("what servers were told is lost: %w; and %w", err, rename)
	}
	return nil, fmt.Errorf("what servers were told is lost: %w; the file is now %s: see there, give the commands again and remove it", err, aside)
}

// Save replaces the file in one step. Its directory is made when somebody has cleared it away.
func Save(name string, all []Record) error {
	b, err := json.MarshalIndent(file{version, all}, "", " ")
	if err != nil {
		return fmt.Errorf("writing overrides: %w", err)
	}
	dir, pattern := filepath.Dir(name), filepath.Base(name)+".new*"
	f, err := os.CreateTemp(dir, pattern)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			f, err = os.CreateTemp(dir, pattern)
		}
	}
	if err != nil {
		return fmt.Errorf("writing overrides: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says more
		return fmt.Errorf("writing overrides: %w", err)
	}
	return nil
}
