package kernel

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"vipd/test/lab"
)

// datagram is one question of a client that keeps its port.
type datagram struct {
	sent   time.Time
	answer string // "" when none came
}

// pinned asks a UDP service from one port, again and again.
type pinned struct {
	c    net.PacketConn
	quit chan struct{}
	wg   sync.WaitGroup

	mu  sync.Mutex
	all []datagram
	err error
}

// ask starts a client of a UDP service that keeps its port.
func ask(t *testing.T, n *lab.Node, to netip.AddrPort, every time.Duration) *pinned {
	t.Helper()
	p := &pinned{quit: make(chan struct{})}
	err := n.Go(func() (err error) {
		p.c, err = net.ListenPacket("udp", netip.AddrPortFrom(n.Addr(), 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p.wg.Go(func() {
		buf := make([]byte, 100)
		for {
			select {
			case <-p.quit:
				return
			default:
			}
			d := datagram{sent: time.Now()}
			_, err := p.c.WriteTo([]byte("who"), net.UDPAddrFromAddrPort(to))
			if e := p.c.SetReadDeadline(d.sent.Add(every)); err == nil {
				err = e
			}
			if k, _, e := p.c.ReadFrom(buf); e == nil { // else: lost
				d.answer = string(buf[:k])
			}
			p.mu.Lock()
			p.all = append(p.all, d)
			if err != nil && p.err == nil {
				p.err = err
			}
			p.mu.Unlock()
			time.Sleep(time.Until(d.sent.Add(every)))
		}
	})
	t.Cleanup(p.stop)
	return p
}

func (p *pinned) stop() {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	p.wg.Wait()
	p.c.Close()
}

// last is the server that answered last.
func (p *pinned) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.all) - 1; i >= 0; i-- {
		if p.all[i].answer != "" {
			return p.all[i].answer
		}
	}
	return ""
}

// lost counts the questions after a time that nobody answered, and all of them.
func (p *pinned) lost(after time.Time) (lost, all int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.all {
		if d.sent.After(after) {
			if all++; d.answer == "" {
				lost++
			}
		}
	}
	return lost, all
}

// O45: a UDP client that keeps its port, 10 questions a second. Its server fails: it is
// deleted at once, be it configured to be inhibited, and with expire_nodest_conn the client
// is answered by another one from then on. A drained one goes when the client has paused.
func TestO45UDPLeaves(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	d := s.d[0]
	for _, r := range s.r[:2] {
		r.ServeUDP(84, vipA(), r.Name)
	}
	service := checked(on(84, "rr", "DR", "protocol = \"UDP\"\ninhibit_on_failure = true"), "[virtual_server.TCP_CHECK]\nconnect_port = 80\n", "10.9.0.11:84", "10.9.0.12:84")
	vipd := s.start(alone(service, "[ipvs_sysctl]\nexpire_nodest_conn = 1\n"))[0]
	const udp = "UDP 10.9.0.100:84"
	d.WaitWeights(5*time.Second, udp, ports(84, 1, 1))
	d.Exec("ipvsadm", "--set", "900", "1", "2")

	p := ask(t, s.cl, at(vipA(), 84), 100*time.Millisecond)
	s.Eventually(5*time.Second, "the client is answered", func() bool { return p.last() != "" })
	old := p.last()
	i := map[string]int{"r1": 0, "r2": 1}[old]
	s.r[i].Exec("iptables-legacy", "-A", "INPUT", "-p", "udp", "--dport", "84", "-j", "DROP")
	s.servers[i].Kill()
	left := []int{1, 1}
	left[i] = -1
	gone := d.WaitWeights(outWithin, udp, ports(84, left...))
	time.Sleep(3 * time.Second)
	lost, all := p.lost(gone)
	t.Logf("%s was removed; of %d questions after that %d were lost", old, all, lost)
	if lost > 2 || all < 15 {
		t.Errorf("%d of %d questions were lost after the removal, want at most 2", lost, all)
	}
	if p.last() == old || p.last() == "" {
		t.Errorf("the client is answered by %q", p.last())
	}

	// The twin: without expire_nodest_conn all that follows a removal is lost.
	s.r[i].Exec("iptables-legacy", "-F", "INPUT")
	s.servers[i].SetMode(lab.Answer)
	d.WaitWeights(backWithin, udp, ports(84, 1, 1))
	d.Sysctl("net/ipv4/vs/expire_nodest_conn", "0")
	second := 1 - i
	s.servers[second].Kill()
	left = []int{1, 1}
	left[second] = -1
	gone = d.WaitWeights(outWithin, udp, ports(84, left...))
	time.Sleep(1500 * time.Millisecond)
	if lost, all := p.lost(gone); all < 8 || lost < all-2 {
		t.Errorf("without expire_nodest_conn %d of %d questions were lost: the setting makes no difference, its advice is wrong", lost, all)
	}
	d.Sysctl("net/ipv4/vs/expire_nodest_conn", "1")
	s.servers[second].SetMode(lab.Answer)
	d.WaitWeights(backWithin, udp, ports(84, 1, 1))

	// Drained, it stays while the client sends, and goes when it has paused for the kernel's time.
	s.Eventually(5*time.Second, "the client is answered again", func() bool { lost, all := p.lost(time.Now().Add(-time.Second)); return all > 5 && lost == 0 })
	old = p.last()
	i = map[string]int{"r1": 0, "r2": 1}[old]
	s.told(t, vipd, "takes no new connections", "drain", s.r[i].Addr().String())
	left = []int{1, 1}
	left[i] = 0
	d.WaitWeights(2*time.Second, udp, ports(84, left...))
	time.Sleep(3 * time.Second)
	d.WaitWeights(100*time.Millisecond, udp, ports(84, left...))
	if p.last() != old {
		t.Errorf("a client of the drained server is answered by %q", p.last())
	}
	p.stop()
	left[i] = -1
	d.WaitWeights(countedWithin+2*time.Second, udp, ports(84, left...))
}
