package process

import (
	"bytes"
	"os/exec"

	"golang.org/x/sys/unix"
)

// look looks at a program before it is started: who could change it, where that is wanted, and whether its file system
// answers. The child that is to become the program holds up this whole process until it has (vfork), every thread of it as
// soon as garbage is looked for: so long it would wait for a file server that is dead.
func look(program string, secure bool, uid uint32) error {
	if secure {
		if err := Secure(program, uid); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return nil // starting it says so
	}
	line, _, _ := bytes.Cut(beginning(path), []byte("\n"))
	if rest, script := bytes.CutPrefix(line, []byte("#!")); script {
		if words := bytes.Fields(rest); len(words) > 0 {
			beginning(string(words[0]))
		}
	}
	return nil
}

// beginning reads the first bytes of a file, as execve(2) does; nothing where it may be executed and not read.
func beginning(path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b := make([]byte, 256) // BINPRM_BUF_SIZE
	n, err := unix.Read(fd, b)
	if err != nil {
		return nil
	}
	return b[:n]
}
