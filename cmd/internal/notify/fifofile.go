package notify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// write writes one line as a whole: it is shorter than what the kernel writes at
// once. It waits while the pipe is full.
func write(ctx context.Context, file *os.File, line string) error {
	stop := context.AfterFunc(ctx, func() { _ = file.SetWriteDeadline(time.Now()) })
	defer stop()
	_, err := file.WriteString(line + "\n")
	return err
}

// open makes the pipe when it is missing and opens it. Both ends are held, so that
// it can be opened while nobody reads.
func (p *pipe) open() (*os.File, error) {
	path := p.cfg.Path
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := p.make(); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("opening the FIFO: %w", err)
	} else if info.Mode().Type() != fs.ModeNamedPipe {
		return nil, fmt.Errorf("opening the FIFO: %s is no FIFO; remove it, vipd makes one", path)
	}
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the FIFO: %w", err)
	}
	return file, nil
}

// make makes the pipe.
func (p *pipe) make() error {
	if err := unix.Mkfifo(p.cfg.Path, fifoMode); err != nil {
		return fmt.Errorf("making the FIFO %s: %w", p.cfg.Path, err)
	}
	p.mu.Lock()
	p.made = true
	p.mu.Unlock()
	if u := p.cfg.Owner; u != nil {
		if err := os.Lchown(p.cfg.Path, int(u.UID), int(u.GID)); err != nil {
			p.log.Warn("the FIFO stays root's: vipd lacks CAP_CHOWN", zap.String("fifo", p.cfg.Path), zap.NamedError("err", err))
		}
	}
	return nil
}

// same tells whether the path still leads to the pipe that is open.
func (p *pipe) same(file *os.File) bool {
	is, err := os.Lstat(p.cfg.Path)
	if err != nil {
		return false
	}
	was, err := file.Stat()
	return err == nil && os.SameFile(is, was)
}

// remove takes away a pipe that was made here.
func (p *pipe) remove() {
	p.mu.Lock()
	made := p.made
	p.mu.Unlock()
	// What somebody put in its place is theirs.
	if info, err := os.Lstat(p.cfg.Path); made && err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		_ = os.Remove(p.cfg.Path) // somebody else was faster
	}
}
