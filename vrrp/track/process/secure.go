package process

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// InsecureError says why a program is not run: somebody else than root and the
// user it runs as could put another one in its place.
type InsecureError struct {
	Program string // as configured
	Path    string // what others can change: the program or a directory above it
	Why     string
	Remedy  string
}

// Error implements error.
func (e *InsecureError) Error() string {
	what := e.Path
	if e.Path != e.Program {
		what = e.Program + ": " + e.Path
	}
	return fmt.Sprintf("refused: %s %s; %s, or set enable_script_security = false", what, e.Why, e.Remedy)
}

// Secure tells whether only root and the user uid can change what runs when
// program is started: the file, where symbolic links to it lead, and every
// directory above any of these. The error is an *InsecureError, or tells why the
// program cannot be looked at.
func Secure(program string, uid uint32) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return err // its text is the one that starting it would give
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("finding %s: %w", program, err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("finding %s: %w", program, err)
	}
	for _, p := range []string{path, real} {
		for i := 0; i <= len(p); i++ {
			if i > 0 && i < len(p) && p[i] != '/' {
				continue
			}
			if err := secureStep(program, strings.TrimSuffix(p[:max(i, 1)], "/"), uid); err != nil {
				return err
			}
		}
		if p == real {
			break
		}
	}
	return nil
}

// secureStep looks at one file or directory on the way.
func secureStep(program, path string, uid uint32) error {
	if path == "" {
		path = "/"
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("finding %s: %w", program, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode()&fs.ModeSymlink != 0 {
		return nil // who may change a link is a matter of its directory
	}
	insecure := func(why, remedy string) error {
		return &InsecureError{Program: program, Path: path, Why: why, Remedy: remedy}
	}
	if st.Uid != 0 && st.Uid != uid {
		return insecure(fmt.Sprintf("belongs to user %d, who is neither root nor the user it runs as", st.Uid), "chown root "+path)
	}
	if info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		return nil // others can add to it, but replace nothing of ours
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return insecure("can be written by everybody", "chmod o-w "+path)
	case mode&0o020 != 0 && st.Gid != 0:
		return insecure(fmt.Sprintf("can be written by group %d", st.Gid), "chmod g-w "+path)
	}
	return nil
}
