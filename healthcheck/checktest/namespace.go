package checktest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// InNamespace runs do on a thread of its own in a new network namespace whose
// loopback is up, and waits for it. Sockets that do opens from its own
// goroutine are in the namespace, and so are commands run with IP; other
// goroutines are not. It needs root; without it the test fails.
func InNamespace(t *testing.T, do func()) {
	t.Helper()
	var thread sync.WaitGroup
	thread.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("making a network namespace: %v; run the tests as root", err)
			return
		}
		IP(t, "link set lo up")
		do()
	})
	thread.Wait()
}

// IP runs ip(8) with the given arguments in the namespace of the calling thread.
func IP(t *testing.T, args string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		t.Errorf("ip %s: %v: %s(needs the package iproute2)", args, err, out)
	}
}

// NFT runs nft(8) with the given commands in the namespace of the calling thread.
func NFT(t *testing.T, commands string) {
	t.Helper()
	out, err := exec.Command("nft", commands).CombinedOutput()
	if err != nil {
		t.Errorf("nft %s: %v: %s(needs the package nftables)", commands, err, out)
	}
}

// Sysctl sets a sysctl (as a path below /proc/sys) in the namespace of the
// calling thread.
func Sysctl(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/"+path, []byte(value), 0o644); err != nil {
		t.Error(fmt.Errorf("setting sysctl: %w", err))
	}
}

// ReadSysctl gives a sysctl in the namespace of the calling thread.
func ReadSysctl(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/sys/" + path)
	if err != nil {
		t.Error(fmt.Errorf("reading sysctl: %w", err))
	}
	return strings.TrimSpace(string(b))
}
