package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// replace replaces the file at path in one step, for its owner's eyes alone. Its directory is made when somebody has
// cleared it away. The error says what could not be done with which file.
func replace(path string, b []byte) error {
	tmp := path + ".new"
	err := os.WriteFile(tmp, b, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(tmp, b, 0o600)
		}
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // it may not be there
	}
	return err
}
