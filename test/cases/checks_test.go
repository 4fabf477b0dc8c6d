package cases

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/bpf"

	"vipd/test/lab"
)

// O41: 2,000 TCP checks every 3 s, half of them without an answer until their
// time is over: each keeps its own rhythm, the starts are spread evenly, and
// nothing piles up. Judged by the arrival of the SYNs at the servers.
func TestO41ChecksOnTime(t *testing.T) {
	t.Parallel()
	const (
		perNode  = 1000
		interval = 3 * time.Second
		timeout  = 2 * time.Second
		cycles   = 6
	)
	l := lab.New(t, "d1", "r1", "r2")
	d, answering, mute := l.Node("d1"), l.Node("r1"), l.Node("r2")
	acceptOn(t, answering, 10000, perNode)
	mute.Nft("table inet mute {\n chain in {\n  type filter hook input priority 0;\n  tcp dport 10000-19999 drop\n }\n}\n")
	var b strings.Builder
	fmt.Fprintf(&b, "[[virtual_server]]\naddress = \"10.9.0.100:80\"\nlvs_method = \"NAT\"\ndelay_loop = %d\nconnect_timeout = %d\nretry = 0\n[virtual_server.TCP_CHECK]\n",
		interval/time.Second, timeout/time.Second)
	for _, n := range []*lab.Node{answering, mute} {
		for i := range perNode {
			fmt.Fprintf(&b, "[[virtual_server.real_server]]\naddress = \"%v:%d\"\n", n.Addr(), 10000+i)
		}
	}
	captures := []*lab.Capture{answering.CaptureOn("eth0", synsOnly()...), mute.CaptureOn("eth0", synsOnly()...)}
	began := time.Now()
	vipd := d.Vipd(lab.VipdConf("", lab.Instance{VIPs: []netip.Addr{lab.VIP()}}) + b.String())
	vipd.WaitState("VI_1", "MASTER", 10*time.Second)
	delayed := vipd.Delayed()
	time.Sleep(time.Until(began.Add((cycles + 1) * interval)))
	end := time.Now()

	var late []time.Duration
	var starts []time.Time
	for i, c := range captures {
		byServer := syns(c)
		if len(byServer) != perNode {
			t.Errorf("node %d: %d servers were checked, want %d", i, len(byServer), perNode)
		}
		for port, at := range byServer {
			if n := len(at); n < cycles-1 {
				t.Errorf("port %d: checked %d times in %v", port, n, end.Sub(began))
			}
			for k := 1; k < len(at); k++ {
				late = append(late, (at[k].Sub(at[k-1]) - interval).Abs())
			}
			starts = append(starts, at...)
		}
	}
	if len(late) == 0 {
		t.Fatal("no check was seen twice")
	}
	slices.Sort(late)
	p99, worst := late[len(late)*99/100], late[len(late)-1]
	// What a busy machine keeps from vipd of each interval.
	slack := delayed() / cycles
	t.Logf("%d intervals: jitter %v at the 99th percentile, %v at most; ready in vain for %v of each", len(late), p99, worst, slack)
	if p99 > interval/10+slack {
		t.Errorf("jitter of the starts is %v at the 99th percentile, want less than %v", p99, interval/10+slack)
	}
	judgeSpread(t, starts, end, interval, 2*perNode)
}

// judgeSpread wants the starts of the last whole interval spread over all of it.
func judgeSpread(t *testing.T, starts []time.Time, end time.Time, interval time.Duration, checks int) {
	t.Helper()
	const bins = 30
	var count [bins]int
	from := end.Add(-interval)
	for _, s := range starts {
		if !s.Before(from) && s.Before(end) {
			count[min(bins-1, int(s.Sub(from)*bins/interval))]++
		}
	}
	if most := slices.Max(count[:]); most > 3*checks/bins {
		t.Errorf("%d checks began within one %v, want about %d: %v", most, interval/bins, checks/bins, count)
	}
}

// acceptOn accepts and closes connections on many ports of a node.
func acceptOn(t *testing.T, n *lab.Node, first, count int) {
	t.Helper()
	var all []net.Listener
	err := n.Go(func() error {
		for i := range count {
			l, err := net.Listen("tcp4", fmt.Sprintf(":%d", first+i))
			if err != nil {
				return err
			}
			all = append(all, l)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return // closed below
				}
				c.Close()
			}
		}()
	}
	t.Cleanup(func() {
		for _, l := range all {
			l.Close()
		}
	})
}

// synsOnly lets through what opens a TCP connection over IPv4.
func synsOnly() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x0800, SkipTrue: 7},
		bpf.LoadAbsolute{Off: 23, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 6, SkipTrue: 5},
		bpf.LoadMemShift{Off: 14},
		bpf.LoadIndirect{Off: 14 + 13, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x12},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 2, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	}
}

// syns lists when connections to each port were begun, without what the
// director's kernel sent again.
func syns(c *lab.Capture) map[uint16][]time.Time {
	type attempt struct {
		from, to uint16
		seq      uint32
	}
	known := map[attempt]bool{}
	list := map[uint16][]time.Time{}
	for _, f := range c.Frames() {
		p, ok := f.Parse()
		if !ok || f.Sent || p.Protocol != 6 || len(p.Payload) < 20 {
			continue
		}
		a := attempt{binary.BigEndian.Uint16(p.Payload), binary.BigEndian.Uint16(p.Payload[2:]), binary.BigEndian.Uint32(p.Payload[4:])}
		if !known[a] {
			known[a] = true
			list[a.to] = append(list[a.to], f.At)
		}
	}
	return list
}
