package daemon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"vipd/vrrp"
	"vipd/vrrp/host"
	"vipd/vrrp/router"
	"vipd/vrrp/socket"
)

// claimSite is a director whose instance A has addresses on eth0, and a network on which
// others may have them, too.
type claimSite struct {
	mu       sync.Mutex
	state    vrrp.State
	addrs    []host.AddressStatus
	others   map[netip.Addr]net.HardwareAddr
	fail     error
	asked    []netip.Addr
	statuses int // times that Status was called
	told     []string
}

func (s *claimSite) Status() []router.InstanceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses++
	return []router.InstanceStatus{{Name: "A", Status: vrrp.Status{State: s.state}}}
}

func (s *claimSite) Claimed(instance string, addrs []netip.Addr, iface, mac string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, instance+" "+router.Several(addrs)+" "+iface+" "+mac)
}

func (s *claimSite) hear(_ context.Context, index int, mac [6]byte, addrs []netip.Addr) ([]socket.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, addrs...)
	var out []socket.Claim
	for _, a := range addrs {
		if m, ok := s.others[a]; ok {
			out = append(out, socket.Claim{Address: a, MAC: m})
		}
	}
	return out, s.fail
}

func (s *claimSite) change(to func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to()
}

type claimHolder struct{ *claimSite }

func (h claimHolder) Status() []host.InstanceStatus {
	return []host.InstanceStatus{{Instance: "A", Addresses: h.addrs}}
}

// newClaimSite has n addresses from 10.9.1.0 on.
func newClaimSite(n int) (*claimSite, *claims) {
	s := &claimSite{state: vrrp.Master, others: map[netip.Addr]net.HardwareAddr{}}
	for a := netip.MustParseAddr("10.9.1.0"); len(s.addrs) < n; a = a.Next() {
		s.addrs = append(s.addrs, host.AddressStatus{Address: host.Address{Prefix: netip.PrefixFrom(a, 32)}, Dev: "eth0", Present: true})
	}
	state := &host.State{Links: map[string]*host.Link{
		"eth0": {Name: "eth0", Index: 2, MAC: [6]byte{2, 0, 0, 0, 0, 1}, Up: true, Running: true},
		"eth1": {Name: "eth1", Index: 3, MAC: [6]byte{2, 0, 0, 0, 0, 9}, Up: true, Running: true},
	}}
	c := newClaims(s, claimHolder{s}, func() *host.State { return state }, zap.NewNop())
	c.hear = s.hear
	return s, c
}

// TestClaims: who answers for an address of a MASTER is told each time and is an alarm
// until it ceases; a BACKUP asks nobody, and our own interfaces are no others.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newClaimSite(3)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		a := netip.MustParseAddr("10.9.1.1")
		s.others[a] = net.HardwareAddr{2, 0, 0, 0, 0, 9}
		s.others[a.Next()] = net.HardwareAddr{2, 0, 0, 0, 0, 7}
		c.Master()
		time.Sleep(claimWindow + time.Millisecond)
		synctest.Wait()
		alarm := []string{"A: the machine with the MAC address 02:00:00:00:00:07 on eth0 answers for 10.9.1.2, too"}
		if got := c.Alarms("A"); !slices.Equal(got, alarm) || len(s.told) != 1 || len(c.Alarms("B")) != 0 {
			t.Errorf("alarms %q, told %q", got, s.told)
		}
		s.change(func() { s.fail = errors.New("the interface is down") })
		time.Sleep(claimEvery)
		synctest.Wait()
		if got := c.Alarms("A"); !slices.Equal(got, alarm) || len(s.told) != 2 {
			t.Errorf("heard before the error: alarms %q, told %q", got, s.told)
		}
		s.change(func() { s.fail, s.others = nil, nil })
		time.Sleep(claimEvery)
		synctest.Wait()
		if got := c.Alarms("A"); got != nil {
			t.Errorf("alarms afterwards: %q", got)
		}
		s.change(func() { s.state, s.asked = vrrp.Backup, nil })
		time.Sleep(3 * claimEvery)
		synctest.Wait()
		if s.asked != nil {
			t.Errorf("a BACKUP asks for %v", s.asked)
		}
		s.change(func() { s.state, s.statuses = vrrp.Backup, 0 })
		time.Sleep(100 * claimEvery)
		synctest.Wait()
		s.change(func() {
			if s.statuses > 0 {
				t.Errorf("a BACKUP looks %d times whether it is MASTER", s.statuses)
			}
			s.state = vrrp.Master
		})
		c.Master()
		time.Sleep(2 * claimEvery)
		synctest.Wait()
		s.change(func() {
			if len(s.asked) == 0 {
				t.Error("a MASTER again asks for nothing")
			}
		})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestClaimsOfOneThatGivesWay: the alarm does not outlive the state.
func TestClaimsOfOneThatGivesWay(t *testing.T) {
	s, c := newClaimSite(1)
	s.others[netip.MustParseAddr("10.9.1.0")] = net.HardwareAddr{2, 0, 0, 0, 0, 7}
	c.look(t.Context())
	if len(c.Alarms("A")) != 1 {
		t.Errorf("alarms %q", c.Alarms("A"))
	}
	s.state = vrrp.Backup
	c.look(t.Context())
	if got := c.Alarms("A"); got != nil {
		t.Errorf("alarms of a BACKUP: %q", got)
	}
}

// TestClaimsOnVirtualMAC: there it is asked a minute after a takeover, and once a minute.
func TestClaimsOnVirtualMAC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newClaimSite(1)
		state := c.host()
		state.Links["eth0"].Kind = "macvlan"
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		asked := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if len(s.asked) != want {
				t.Errorf("asked %d times, want %d", len(s.asked), want)
			}
		}
		asked(35*time.Second, 0)
		c.Master()
		asked(60*time.Second, 0)
		asked(2*time.Second, 1)
		asked(57*time.Second, 1)
		asked(2*time.Second, 2)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestClaimsOfATwin: another that has all the addresses is told of once, not for each.
func TestClaimsOfATwin(t *testing.T) {
	s, c := newClaimSite(50)
	for _, a := range s.addrs {
		s.others[a.Address.Prefix.Addr()] = net.HardwareAddr{2, 0, 0, 0, 0, 7}
	}
	c.look(t.Context())
	if want := []string{"A 10.9.1.0 and 49 more of our addresses eth0 02:00:00:00:00:07"}; !slices.Equal(s.told, want) {
		t.Errorf("told %q, want %q", s.told, want)
	}
	if got := c.Alarms("A"); len(got) != 1 {
		t.Errorf("alarms %q, want one", got)
	}
}

// TestClaimsOfMany: of very many addresses every one is asked for within six looks, and
// never more at once than there is room for.
func TestClaimsOfMany(t *testing.T) {
	for _, n := range []int{1, claimBatch, claimBatch + 1, 1000, 5999} {
		s, c := newClaimSite(n)
		seen := map[netip.Addr]bool{}
		for range claimRounds {
			s.asked = nil
			c.look(t.Context())
			if len(s.asked) > max(claimBatch, n/claimRounds+1) || len(s.asked) > socket.MaxClaims {
				t.Fatalf("%d of %d addresses at once", len(s.asked), n)
			}
			for _, a := range s.asked {
				seen[a] = true
			}
		}
		if len(seen) != n {
			t.Errorf("%d of %d addresses were asked for", len(seen), n)
		}
	}
}
