// Package shield holds TCP resets back that this machine itself would send from some addresses.
//
// A director that has just taken over gets packets of connections that it is told of a moment later, when the messages
// of the kernel's sync daemon arrive. Until then IPVS does not know them, and the machine answers with a reset. While
// the address is shielded nothing is answered, the client sends the packet again, and by then the connection is known.
//
// [Shield.Want] takes all shielded addresses and returns when the kernel has them. Addresses are shielded before they
// are on this machine, so nothing has to be done in the moment of a takeover. The rules are nftables' (no other tables
// are read or changed):
//
//	table ip vipd_shield {
//		set armed { type ipv4_addr }
//		chain out { type filter hook output priority 0; tcp flags rst ip saddr @armed drop }
//	}
//
// and the same in ip6. What a crash left is replaced by the first Want, or removed by Release: a file tells the name of
// the tables, so that those of another vipd stay.
package shield

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"vipd/ipvs/internal/record"
)

const (
	timeLimit = 2 * time.Second
	setName   = "armed"
	chainName = "out"
	comment   = "vipd: no resets of connections that are about to be known"
	flagRST   = 0x04
	flagsAt   = 13 // in the TCP header
	chunk     = 256
)

// ErrUnsupported says that the kernel has no nftables for the families ip and ip6.
var ErrUnsupported = errors.New("the kernel has no nftables for IP (module nf_tables with the families ip and ip6)")

// Shield owns one table in each family. Its methods may be called from any goroutine.
type Shield struct {
	in     func(func() error) error
	record string // file with the name of the tables

	mu    sync.Mutex // guards what follows
	table string
	have  []netip.Addr
	made  bool
}

// New returns a shield that has done nothing yet. file is one that tells a successor, after a crash, what the tables
// are called. in runs what talks to the kernel in the network namespace that is meant; nil: that of the process.
func New(file string, in func(func() error) error) *Shield {
	if in == nil {
		in = func(f func() error) error { return f() }
	}
	return &Shield{record: file, in: in}
}

// layout is what differs between the families.
type layout struct {
	family  nftables.TableFamily
	address nftables.SetDatatype
	source  uint32 // offset of the source address in the header
	size    uint32
}

var layouts = [2]layout{
	{nftables.TableFamilyIPv4, nftables.TypeIPAddr, 12, 4},
	{nftables.TableFamilyIPv6, nftables.TypeIP6Addr, 8, 16},
}

func dial() (*nftables.Conn, error) {
	c, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return c.SetDeadline(time.Now().Add(timeLimit))
	}))
	if err != nil {
		return nil, fmt.Errorf("opening nftables: %w", support(err))
	}
	return c, nil
}

func support(err error) error {
	for _, e := range []error{unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.ESOCKTNOSUPPORT} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrUnsupported, e)
		}
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w (vipd needs CAP_NET_ADMIN: run it as root, or look at the CapabilityBoundingSet of its unit)", err)
	}
	return err
}

// Want replaces the shielded addresses, all at once. Tables of another name, also those that a crash left, are removed.
func (s *Shield) Want(table string, armed []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	armed = slices.Clone(armed)
	slices.SortFunc(armed, netip.Addr.Compare)
	return s.in(func() error { return s.want(table, slices.Compact(armed)) })
}

func (s *Shield) want(table string, armed []netip.Addr) error {
	if s.made && table == s.table && slices.Equal(armed, s.have) {
		return nil
	}
	err := error(unix.ENOENT)
	if s.made && table == s.table {
		err = s.commit(table, armed)
	}
	if errors.Is(err, unix.ENOENT) { // never made, or taken away by others
		err = s.renew(table, armed)
	}
	if err != nil {
		s.made = false
		return fmt.Errorf("holding resets back: %w", support(err))
	}
	s.made, s.table, s.have = true, table, armed
	return nil
}

// renew makes the tables where nothing of them is left.
func (s *Shield) renew(table string, armed []netip.Addr) error {
	if err := s.remove(table); err != nil {
		return err
	}
	if err := record.Write(s.record, []byte(table)); err != nil {
		return fmt.Errorf("remembering what the tables of nftables are called: %w", err)
	}
	return s.commit(table, armed)
}

// commit makes the tables, or replaces the addresses of those that were made.
func (s *Shield) commit(table string, armed []netip.Addr) error {
	c, err := dial()
	if err != nil {
		return err
	}
	for _, l := range layouts {
		t := &nftables.Table{Name: table, Family: l.family}
		set := &nftables.Set{Table: t, Name: setName, KeyType: l.address}
		if s.made {
			c.FlushSet(set)
		} else if err := create(c, t, set, l); err != nil {
			return err
		}
		if err := add(c, set, l, armed); err != nil {
			return err
		}
	}
	return c.Flush()
}

// create makes a table with its rule.
func create(c *nftables.Conn, t *nftables.Table, set *nftables.Set, l layout) error {
	c.AddTable(t)
	if err := c.AddSet(set, nil); err != nil {
		return fmt.Errorf("making a set of addresses: %w", err)
	}
	policy := nftables.ChainPolicyAccept
	chain := c.AddChain(&nftables.Chain{Name: chainName, Table: t, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter, Policy: &policy})
	c.AddRule(&nftables.Rule{Table: t, Chain: chain, UserData: userdata.AppendString(nil, userdata.TypeComment, comment), Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: flagsAt, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{flagRST}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{0}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: l.source, Len: l.size},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID},
		&expr.Counter{},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	return nil
}

// add puts the addresses of the family into the set.
func add(c *nftables.Conn, set *nftables.Set, l layout, armed []netip.Addr) error {
	var elements []nftables.SetElement
	for _, a := range armed {
		if a.Is4() == (l.size == 4) {
			elements = append(elements, nftables.SetElement{Key: a.AsSlice()})
		}
	}
	for part := range slices.Chunk(elements, chunk) {
		if err := c.SetAddElements(set, part); err != nil {
			return fmt.Errorf("adding shielded addresses: %w", err)
		}
	}
	return nil
}

// tables finds those of the names in both families.
func tables(c *nftables.Conn, names ...string) ([]*nftables.Table, error) {
	var out []*nftables.Table
	for _, l := range layouts {
		all, err := c.ListTablesOfFamily(l.family)
		if err != nil {
			return nil, fmt.Errorf("listing the tables of nftables: %w", support(err))
		}
		for _, t := range all {
			if slices.Contains(names, t.Name) {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// Look makes the tables anew when others have removed one, or what is in it, and reports whether they had.
func (s *Shield) Look() (gone bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.made {
		return false, nil
	}
	table, have := s.table, s.have
	err = s.in(func() error {
		c, err := dial()
		if err != nil {
			return err
		}
		whole, err := intact(c, table)
		if err != nil || whole {
			return err
		}
		gone = true
		if err := s.renew(table, have); err != nil {
			return err
		}
		s.made = true
		return nil
	})
	return gone, err
}

// intact reports whether both tables have their rule.
func intact(c *nftables.Conn, table string) (bool, error) {
	found, err := tables(c, table)
	if err != nil || len(found) < len(layouts) {
		return false, err
	}
	for _, t := range found {
		rules, err := c.GetRules(t, &nftables.Chain{Name: chainName, Table: t})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return false, fmt.Errorf("listing the rules that hold resets back: %w", err)
		}
		if len(rules) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// Release removes the tables, those that a crash left too. Where there were none it asks the kernel nothing.
func (s *Shield) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in(func() error { return s.remove() })
}

// remove removes the tables that there may be, and those of the names.
func (s *Shield) remove(names ...string) error {
	b, err := os.ReadFile(s.record)
	switch {
	case err == nil && len(b) > 0:
		names = append(names, string(b))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("looking what the tables of nftables are called: %w", err)
	}
	if s.made {
		names = append(names, s.table)
	}
	if len(names) == 0 {
		return nil
	}
	c, err := dial()
	if err != nil {
		return err
	}
	found, err := tables(c, names...)
	if err != nil {
		return err
	}
	for _, t := range found {
		c.DelTable(t)
	}
	if len(found) > 0 {
		if err := c.Flush(); err != nil {
			return fmt.Errorf("removing the rules that hold resets back: %w", err)
		}
	}
	s.made = false
	if err := os.Remove(s.record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting what the tables of nftables are called: %w", err)
	}
	return nil
}
