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
// and the same in ip6. What a crash left is replaced by the first Want.
package shield

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
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
	mu    sync.Mutex // guards what follows
	table string
	have  []netip.Addr
	made  bool
}

// New returns a shield that has done nothing yet.
func New(table string) *Shield { return &Shield{table: table} }

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
	return err
}

// Want replaces the shielded addresses, all at once. The table of another name, if there was one, is removed.
func (s *Shield) Want(table string, armed []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	armed = slices.Clone(armed)
	slices.SortFunc(armed, netip.Addr.Compare)
	armed = slices.Compact(armed)
	if s.made && table == s.table && slices.Equal(armed, s.have) {
		return nil
	}
	if s.made && table != s.table {
		if err := s.remove(); err != nil {
			return err
		}
	}
	s.table = table
	c, err := dial()
	if err != nil {
		return err
	}
	if !s.made {
		found, err := tables(c, table)
		if err != nil {
			return err
		}
		for _, t := range found {
			c.DelTable(t)
		}
	}
	for _, l := range layouts {
		t := &nftables.Table{Name: table, Family: l.family}
		set := &nftables.Set{Table: t, Name: setName, KeyType: l.address}
		if !s.made {
			if err := create(c, t, set, l); err != nil {
				return err
			}
		} else {
			c.FlushSet(set)
		}
		if err := add(c, set, l, armed); err != nil {
			return err
		}
	}
	if err := c.Flush(); err != nil {
		s.made = false // others may have taken the table away: the next Want makes it anew
		return fmt.Errorf("holding resets back: %w", support(err))
	}
	s.made, s.have = true, armed
	return nil
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

// tables finds those of a name in both families.
func tables(c *nftables.Conn, name string) ([]*nftables.Table, error) {
	var out []*nftables.Table
	for _, l := range layouts {
		all, err := c.ListTablesOfFamily(l.family)
		if err != nil {
			return nil, fmt.Errorf("listing the tables of nftables: %w", support(err))
		}
		for _, t := range all {
			if t.Name == name {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

// Look makes the table anew when others have removed it, and reports whether they had.
func (s *Shield) Look() (gone bool, err error) {
	s.mu.Lock()
	made, table, have := s.made, s.table, s.have
	s.mu.Unlock()
	if !made {
		return false, nil
	}
	c, err := dial()
	if err != nil {
		return false, err
	}
	found, err := tables(c, table)
	if err != nil || len(found) == len(layouts) {
		return false, err
	}
	s.mu.Lock()
	s.made = false
	s.mu.Unlock()
	return true, s.Want(table, have)
}

// Release removes the tables, those that a crash left too.
func (s *Shield) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove()
}

func (s *Shield) remove() error {
	c, err := dial()
	if err != nil {
		return err
	}
	found, err := tables(c, s.table)
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
	s.made, s.have = false, nil
	return nil
}
