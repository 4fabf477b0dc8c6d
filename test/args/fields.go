// Package args reads the settings in scenario files: the "key=value" after the
// commands of datadriven tests.
package args

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Fields are what may be set, by key: pointers to strings, bools, numbers, times,
// addresses and lists of addresses, or a func(values []string) error. A bool is
// set by its key alone; all others need a value.
type Fields map[string]any

// Args sets what the arguments of a command say.
func (f Fields) Args(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	for _, a := range d.CmdArgs {
		if err := f.set(a.Key, a.Vals); err != nil {
			d.Fatalf(t, "%s: %v", a.Key, err)
		}
	}
}

// Words sets what words like "key=value" or "key=one,two" say.
func (f Fields) Words(t *testing.T, words []string) {
	t.Helper()
	for _, w := range words {
		key, value, found := strings.Cut(w, "=")
		var values []string
		if found {
			values = strings.Split(value, ",")
		}
		if err := f.set(key, values); err != nil {
			t.Fatalf("%s: %v", w, err)
		}
	}
}

// set sets one field.
func (f Fields) set(key string, values []string) error {
	field, ok := f[key]
	if !ok {
		return errors.New("there is no such setting")
	}
	switch p := field.(type) {
	case *bool:
		*p = len(values) == 0 || values[0] == "true"
		return nil
	case func([]string) error:
		return p(values)
	case *[]netip.Addr:
		var err error
		*p, err = addrs(values)
		return err
	}
	if len(values) != 1 {
		return fmt.Errorf("%d values, want one", len(values))
	}
	var err error
	switch p := field.(type) {
	case *string:
		*p = values[0]
	case *int:
		*p, err = strconv.Atoi(values[0])
	case *uint8:
		*p, err = Uint8(values[0])
	case *time.Duration:
		*p, err = time.ParseDuration(values[0])
	case *netip.Addr:
		*p, err = netip.ParseAddr(values[0])
	default:
		err = fmt.Errorf("a field of type %T cannot be set", field)
	}
	return err
}

// addrs reads a list of addresses; an empty text is none.
func addrs(texts []string) (all []netip.Addr, err error) {
	for _, text := range texts {
		if text == "" {
			continue
		}
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// Uint8 reads a number up to 255.
func Uint8(text string) (uint8, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	return uint8(n), err
}
