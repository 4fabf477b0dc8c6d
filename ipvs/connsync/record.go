package connsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"vipd/ipvs/internal/record"
)

// owned is what the record says: that the daemons are vipd's, and on which interface they stand.
type owned struct {
	Interface string
	Index     int // 0: not known
}

// recall reads the record; there is none where the daemons are not vipd's. One that cannot be understood says just that
// they are.
func (m *Manager) recall() (o owned, recorded bool) {
	b, err := os.ReadFile(m.record)
	if err != nil {
		return owned{}, !errors.Is(err, fs.ErrNotExist)
	}
	if json.Unmarshal(b, &o) != nil {
		o = owned{}
	}
	return o, true
}

// own records that the daemons are vipd's, and where they stand. Called with turn held.
func (m *Manager) own(base owned) error {
	if _, err := os.Lstat(m.record); err == nil && m.base == base {
		return nil
	}
	b, err := json.Marshal(base)
	if err == nil {
		err = record.Write(m.record, b)
	}
	if err != nil {
		return fmt.Errorf("remembering that the sync daemons are vipd's: %w", err)
	}
	m.base = base
	return nil
}
