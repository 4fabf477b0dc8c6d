package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"vipd/test/uml"
)

// insideLimit bounds one section in the user-mode kernel.
const insideLimit = 10 * time.Minute

// performInside runs a section in the user-mode kernel: this same program there, which
// hands back its tables in a file.
func (p *Program) performInside(s Section, r *Report) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "bench-tables")
	if err != nil {
		return fmt.Errorf("making a directory for the results: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "tables.json")
	code, err := uml.Run(context.Background(), []string{exe, "-only", s.Name, "-tables", file}, uml.Options{
		Modules: p.Modules, Share: []string{dir, filepath.Dir(exe), filepath.Dir(os.Getenv(uml.EnvVipd))}, Timeout: insideLimit,
	})
	if err != nil {
		return err
	}
	if code != 0 {
		return errors.New("it failed in the user-mode kernel; the reason is above")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	var tables []*Table
	if err := json.Unmarshal(b, &tables); err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	r.tables = append(r.tables, tables...)
	return nil
}

// runInside runs the sections here and writes their tables to a file.
func (p *Program) runInside(only, file string) error {
	r := newReport(p, only)
	for _, s := range p.chosen(only) {
		if err := p.perform(s, r); err != nil {
			return err
		}
	}
	b, err := json.Marshal(r.tables)
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}
