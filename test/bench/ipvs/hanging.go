package main

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/net/bpf"

	"vipd/test/bench"
	"vipd/test/lab"
)

// hangingTime is for how long the starts of checks are watched.
const hangingTime = 20 * time.Second

// hanging measures how evenly checks begin while half of the servers never answer.
func hanging(st *lab.Stage, r *bench.Report) {
	f := farm{services: 500, servers: 20, delay: 2 * time.Second, timeout: time.Second, hang: true}
	t := r.Table("10,000 TCP checks every 2 s, half of them to servers that never answer", fmt.Sprintf(
		"On this machine, for %v. The packets (SYN) of half of the servers are dropped; the checks of these end after 1 s. Starts are the first SYN of "+
			"each connection at the servers, by the kernel's time stamps. Jitter: by how much the time between two starts of a check differs from the "+
			"interval, or from a multiple of it where starts were left out.", hangingTime))
	s := newSite(st)
	p := s.start(bench.Vipd, f)
	time.Sleep(3 * settle) // a server that hangs is checked again at once before it is down
	seen := s.r1.CaptureOn("eth0", onlySYN()...)
	before := p.Usage()
	time.Sleep(hangingTime)
	cpu, wakeups := p.Usage().Since(before)
	if n := seen.Lost(); n > 0 {
		st.Fatalf("%d packets were not seen", n)
	}
	seen.Close()
	starts := connections(seen.Frames())
	jitter, made, missed := evenness(starts, f.delay)
	checked := f.services * f.servers
	t.Add("checks that were seen", fmt.Sprintf("%d of %d", len(starts), checked), "–").Want("all", len(starts) == checked)
	t.Add("jitter: 50 %, 99 %, all", fmt.Sprintf("%s, %s, %s", bench.MS(jitter.Median()), bench.MS(jitter.At(0.99)), bench.MS(jitter.Worst())), "–").
		Want("99 % ≤ 10 % of the interval", len(jitter) > 0 && jitter.At(0.99) <= f.delay/10)
	t.Add("starts left out", fmt.Sprintf("%d of %d", missed, made+missed), "–")
	memory := p.AllMemory()
	t.Add("resident memory", megabytes(memory), "–").Want("≤ 100 MB", memory <= memoryLimit)
	t.Add("CPU", percent(cpu), "–")
	t.Add("wake-ups a second", fmt.Sprintf("%.0f", wakeups), "–")
}

// onlySYN keeps the frames of IPv4 that begin a TCP connection.
func onlySYN() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 12, Size: 2}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x0800, SkipTrue: 6},
		bpf.LoadAbsolute{Off: 23, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 6, SkipTrue: 4},
		bpf.LoadMemShift{Off: 14},
		bpf.LoadIndirect{Off: 14 + 13, Size: 1}, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0x02, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 18}, bpf.RetConstant{Val: 0},
	}
}

// connections are the times at which each server was asked, in order. A SYN that is
// sent again is none.
func connections(frames []lab.Frame) map[netip.Addr][]time.Time {
	type conn struct {
		port uint16
		seq  uint32
	}
	last := map[netip.Addr]conn{}
	starts := map[netip.Addr][]time.Time{}
	for _, fr := range frames {
		ip := fr.Raw[14:]
		tcp := ip[int(ip[0]&15)*4:]
		to, _ := netip.AddrFromSlice(ip[16:20])
		c := conn{binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint32(tcp[4:])}
		if last[to] != c {
			last[to] = c
			starts[to] = append(starts[to], fr.At)
		}
	}
	return starts
}

// evenness returns by how much the gaps differ from the interval, how many there
// are, and how many starts are missing in them.
func evenness(starts map[netip.Addr][]time.Time, interval time.Duration) (jitter bench.Series, made, missed int) {
	for _, list := range starts {
		for i := 1; i < len(list); i++ {
			gap := list[i].Sub(list[i-1])
			n := max(1, int((gap+interval/2)/interval))
			jitter = append(jitter, (gap - time.Duration(n)*interval).Abs())
			made, missed = made+1, missed+n-1
		}
	}
	return jitter, made, missed
}
