package hugepages

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// smaps returns the entry of /proc/self/smaps for an address.
func smaps(t *testing.T, at uintptr) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	in := false
	for line := range strings.Lines(string(b)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			in = from <= at && at < to
		}
		if in {
			found.WriteString(line)
		}
	}
	return found.String()
}

// TestUse: what runs while its code is moved goes on, and garbage is collected.
func TestUse(t *testing.T) {
	object := new([3 * 4096]byte)
	var stop atomic.Bool
	var sum atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				sum.Add(int64(len(fmt.Sprint(strings.Repeat("x", 100), sum.Load()))))
			}
		})
	}
	for i := range 3 {
		if err := Use(); err != nil {
			t.Fatalf("call %d: %v", i+1, err)
		}
		before := sum.Load()
		for sum.Load() < before+1000 {
			runtime.Gosched()
		}
	}
	runtime.GC()
	stop.Store(true)
	wg.Wait()
	code := smaps(t, reflect.ValueOf(TestUse).Pointer())
	if !strings.Contains(code, " r-xp ") || strings.Contains(code, os.Args[0]) {
		t.Errorf("the code is still that of the file:\n%s", code)
	}
	if from, _, err := text(); from != 0 || err != nil {
		t.Errorf("it would be moved again: %x, %v", from, err)
	}
	// hg: MADV_HUGEPAGE was given.
	if heap := smaps(t, reflect.ValueOf(object).Pointer()); !strings.Contains(heap, " hg") {
		t.Errorf("the heap:\n%s", heap)
	}
}
