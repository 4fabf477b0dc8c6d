package firewall

import (
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Registers: the first two of 16 bytes each, which set keys of two fields need side by side.
const (
	reg1 = unix.NFT_REG_1
	reg2 = unix.NFT_REG_2
)

// layout is where the header of a family has what the rules look at.
type layout struct {
	family   nftables.TableFamily
	src, dst uint32 // offsets of the addresses
	size     uint32 // of an address
	address  nftables.SetDatatype
	icmp     byte // protocol number
	icmpType nftables.SetDatatype
	errors   []byte // ICMP types that a router sends about packets of others, redirects included
	router   []byte // neighbour discovery and router advertisements
	reports  []byte // of multicast membership, in ICMP
}

var layouts = map[Family]layout{
	IPv4: {
		family: nftables.TableFamilyIPv4, src: 12, dst: 16, size: 4, address: nftables.TypeIPAddr,
		icmp: unix.IPPROTO_ICMP, icmpType: nftables.TypeICMPType, errors: []byte{3, 5, 11, 12},
	},
	IPv6: {
		family: nftables.TableFamilyIPv6, src: 8, dst: 24, size: 16, address: nftables.TypeIP6Addr,
		icmp: unix.IPPROTO_ICMPV6, icmpType: nftables.TypeICMP6Type, errors: []byte{1, 2, 3, 4},
		router: []byte{133, 134, 135, 136, 137}, reports: []byte{131, 132, 143},
	},
}

// The numbers of protocols that have no name in package unix.
const protoVRRP = 112

// builder collects the messages of one transaction.
type builder struct {
	*nftables.Conn
	sets uint32 // ids given in this transaction
	err  error
}

// set adds a set without elements.
func (b *builder) set(s *nftables.Set) *nftables.Set { return b.setOf(s, nil) }

func (b *builder) setOf(s *nftables.Set, elements []nftables.SetElement) *nftables.Set {
	b.sets++
	s.ID = b.sets // the library's own counter is not safe among goroutines
	if s.Anonymous {
		s.Name = "__set%d"
	}
	if err := b.AddSet(s, elements); err != nil && b.err == nil {
		b.err = err
	}
	return s
}

// create adds a table with all that is in it but elements.
func (b *builder) create(op Op) {
	lay := layouts[op.Family]
	t := b.CreateTable(&nftables.Table{Name: op.Table, Family: lay.family})
	b.setOf(&nftables.Set{Table: t, Name: setOwner, KeyType: nftables.TypeIFName, KeyByteOrder: binaryutil.NativeEndian}, []nftables.SetElement{
		{Key: ownerKey(op.Owner), Comment: ownerComment(op.Owner)},
	})
	g := generator{b, lay, t, op.Options.Counters, map[string]*nftables.Set{}}
	if op.Parts.Refusing {
		g.sets[setRefused] = b.set(&nftables.Set{Table: t, Name: setRefused, KeyType: lay.address})
		if op.Family == IPv6 {
			g.sets[setRefusedLink] = b.set(linkSet(t))
		}
	}
	if op.Parts.Silencing {
		g.sets[mapSilent] = b.set(silentSet(t))
	}
	for _, name := range chainNames(op.Parts) {
		policy, hook := nftables.ChainPolicyAccept, nftables.ChainHookInput
		if name == chainOut {
			hook = nftables.ChainHookOutput
		}
		c := b.AddChain(&nftables.Chain{
			Name: name, Table: t, Type: nftables.ChainTypeFilter, Hooknum: hook,
			Priority: nftables.ChainPriorityRef(nftables.ChainPriority(op.Options.Priority)), Policy: &policy,
		})
		for _, rule := range ruleNames(op.Family, name, op.Parts) {
			g.rule(c, rule)
		}
	}
}

// linkSet is the set of link-local addresses with their interface.
func linkSet(t *nftables.Table) *nftables.Set {
	return &nftables.Set{Table: t, Name: setRefusedLink, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeIFName)}
}

// silentSet is the map from silent links to their parents.
func silentSet(t *nftables.Table) *nftables.Set {
	return &nftables.Set{Table: t, Name: mapSilent, IsMap: true, KeyType: nftables.TypeIFName, KeyByteOrder: binaryutil.NativeEndian, DataType: nftables.TypeIFIndex}
}

// generator writes the rules of one table.
type generator struct {
	*builder
	layout
	table    *nftables.Table
	counters bool
	sets     map[string]*nftables.Set
}

// rule adds a rule by its name.
func (g *generator) rule(c *nftables.Chain, name string) {
	in := c.Name == chainIn
	var e []expr.Any
	var end expr.Any = &expr.Verdict{Kind: expr.VerdictAccept}
	drop := &expr.Verdict{Kind: expr.VerdictDrop}
	switch name {
	case ruleReports:
		e, end = g.reportsOut(), drop
	case ruleSolicit:
		e, end = append(g.icmpTypes(133), g.outIs(mapSilent)...), drop
	case ruleRouting:
		types := g.router
		if !in {
			types = append(append(types[:len(types):len(types)], g.errors...), g.reports...)
		}
		e = g.icmpTypes(types...)
	case ruleVRRP:
		e = protocol(protoVRRP)
	case ruleMembership:
		e = protocol(unix.IPPROTO_IGMP)
	case ruleRefused:
		e, end = append(g.addr(in, reg1), g.lookup(setRefused)), drop
	case ruleRefusedLL:
		e, end = append(g.addr(in, reg1), linkName(in, reg2), g.lookup(setRefusedLink)), drop
	}
	if g.counters {
		e = append(e, &expr.Counter{})
	}
	g.AddRule(&nftables.Rule{Table: g.table, Chain: c, Exprs: append(e, end),
		UserData: userdata.AppendString(nil, userdata.TypeComment, name)})
}

// reportsOut sends membership reports of silent links by the parent.
func (g *generator) reportsOut() []expr.Any {
	var e []expr.Any
	if g.icmp == unix.IPPROTO_ICMPV6 {
		e = g.icmpTypes(g.reports...)
	} else {
		e = protocol(unix.IPPROTO_IGMP)
	}
	s := g.sets[mapSilent]
	e = append(e, linkName(false, reg1),
		&expr.Lookup{SourceRegister: reg1, DestRegister: reg2, IsDestRegSet: true, SetName: s.Name, SetID: s.ID})
	e = append(e, g.addr(true, reg1)...)
	return append(e, &expr.Dup{RegAddr: reg1, RegDev: reg2, IsRegDevSet: true})
}

// addr loads the destination or the source address.
func (g *generator) addr(destination bool, reg uint32) []expr.Any {
	at := g.src
	if destination {
		at = g.dst
	}
	return []expr.Any{&expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: g.size}}
}

// lookup goes on when the first register is in the set.
func (g *generator) lookup(set string) expr.Any {
	return &expr.Lookup{SourceRegister: reg1, SetName: g.sets[set].Name, SetID: g.sets[set].ID}
}

// outIs goes on when the packet leaves by a link of the map.
func (g *generator) outIs(set string) []expr.Any {
	s := g.sets[set]
	return []expr.Any{linkName(false, reg1),
		&expr.Lookup{SourceRegister: reg1, DestRegister: reg2, IsDestRegSet: true, SetName: s.Name, SetID: s.ID},
		// It always is; but nft does not show a lookup whose result nobody needs.
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg2, Data: indexValue(0)}}
}

// icmpTypes goes on for ICMP messages of these types.
func (g *generator) icmpTypes(types ...byte) []expr.Any {
	elements := make([]nftables.SetElement, len(types))
	for i, t := range types {
		elements[i].Key = []byte{t}
	}
	s := g.setOf(&nftables.Set{Table: g.table, Anonymous: true, Constant: true, KeyType: g.icmpType}, elements)
	return append(protocol(g.icmp),
		&expr.Payload{DestRegister: reg1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1},
		&expr.Lookup{SourceRegister: reg1, SetName: s.Name, SetID: s.ID})
}

// protocol goes on for packets of this transport protocol.
func protocol(p byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: []byte{p}},
	}
}

// linkName loads the name of the link that a packet came by or leaves by.
func linkName(in bool, reg uint32) expr.Any {
	k := expr.MetaKeyOIFNAME
	if in {
		k = expr.MetaKeyIIFNAME
	}
	return &expr.Meta{Key: k, Register: reg}
}

// addressKey is the key of an address in its set.
func addressKey(a Address) []byte {
	key := a.Addr.AsSlice()
	if a.Interface != "" {
		key = append(key, nameKey(a.Interface)...)
	}
	return key
}

// nameKey is an interface's name as a register holds it.
func nameKey(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

// indexValue is an interface's index as a register holds it.
func indexValue(index int) []byte { return binaryutil.NativeEndian.PutUint32(uint32(index)) }
