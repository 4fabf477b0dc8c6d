package logging

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate is a writer that blocks until it is opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	buf  bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.String()
}

func TestWriterKeepsOrderAndWritesAll(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	w := newWriter(g)
	var want strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	w.close()
	if g.String() != want.String() {
		t.Errorf("lines are missing or out of order: got %d bytes, want %d", len(g.String()), want.Len())
	}
}

func TestWriterNeverBlocksAndTellsWhatItDropped(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	w := newWriter(g)
	began := time.Now()
	for range queueLines + 100 {
		if _, err := w.Write([]byte("x\n")); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("writing to a stuck log took %v", took)
	}
	close(g.open)
	w.close()
	if !strings.Contains(g.String(), "log lines were dropped") {
		t.Error("nothing tells that lines were dropped")
	}
}
