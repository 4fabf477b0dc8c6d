package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// envHTTPD makes a test binary an HTTP server: "PORT NAME".
const envHTTPD = "VIPD_LAB_HTTPD"

// HTTPD starts an HTTP server for a port of the node, a process of its own that can be
// killed like any. It answers every request with its name, once told to Listen: to start
// a program takes more of a processor than to serve. The package's TestMain must call
// Main or MainHost.
func (n *Node) HTTPD(port uint16, name string) *HTTPD {
	n.lab.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		n.lab.t.Fatalf("lab: finding the test binary: %v", err)
	}
	cmd := exec.Command("ip", "netns", "exec", n.NS, exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", envHTTPD, port, name))
	h := &HTTPD{n.start("httpd", cmd)}
	h.WaitLog("ready", 10*time.Second)
	return h
}

// HTTPD is an HTTP server.
type HTTPD struct{ *Process }

// Listen has it serve, and returns since when it does.
func (h *HTTPD) Listen() time.Time {
	h.Node.lab.t.Helper()
	h.Signal(syscall.SIGUSR1)
	line := h.WaitLog(`listening at \d+`, 10*time.Second)
	ns, err := strconv.ParseInt(line[strings.LastIndexByte(line, ' ')+1:], 10, 64)
	if err != nil {
		h.Node.lab.t.Fatalf("lab: the HTTP server said %q", line)
	}
	return time.Unix(0, ns)
}

// serveHTTP is this process as an HTTP server, if it is one. It returns only when it is none.
func serveHTTP() {
	port, name, ok := strings.Cut(os.Getenv(envHTTPD), " ")
	if !ok {
		return
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGUSR1)
	fmt.Println("ready")
	<-told
	fmt.Println(answerHTTP(port, name))
	os.Exit(1)
}

// answerHTTP serves one connection after the other, with as few system calls as can be:
// in the user-mode kernel these are what a server costs. It returns only on an error.
func answerHTTP(port, name string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	reply := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", len(name)+1, name)
	// Connections have these settings from the listener.
	err = errors.Join(unix.SetsockoptInt(l, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.SetsockoptTimeval(l, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}),
		unix.Bind(l, &unix.SockaddrInet4{Port: number}), unix.Listen(l, 1024))
	if err != nil {
		return err
	}
	fmt.Println("listening at", time.Now().UnixNano())
	buf := make([]byte, 4096)
	for {
		// Accept's own time-out is that of reading.
		c, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
		if err == unix.EAGAIN || err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return err
		}
		if n, err := unix.Read(c, buf); err == nil && n > 0 {
			_, _ = unix.Write(c, reply) // a client that is gone gets nothing
		}
		unix.Close(c)
	}
}
