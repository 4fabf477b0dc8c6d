package firewall

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// Tables implements Kernel.
func (NFT) Tables(owner string, names ...string) (out []Table, err error) {
	defer func() { // the library trusts what other programs attach to their sets
		if p := recover(); p != nil {
			err = fmt.Errorf("reading the nftables tables: %v", p)
		}
	}()
	c, err := dial()
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		lay := layouts[f]
		listed, err := c.ListTablesOfFamily(lay.family)
		if err != nil {
			return nil, fmt.Errorf("reading the nftables tables: %w", support(err))
		}
		for _, t := range listed {
			if len(names) > 0 && !slices.Contains(names, t.Name) {
				continue
			}
			r := reader{Conn: c, layout: lay, table: t, owner: owner, out: Table{Family: f, Name: t.Name, Refused: map[Address]bool{}, Silent: map[string]int{}}}
			if err := r.read(); err != nil {
				return nil, fmt.Errorf("reading the nftables table %s: %w", r.out.ref(), support(err))
			}
			if len(names) > 0 || r.out.Owner == owner {
				out = append(out, r.out)
			}
		}
	}
	return out, nil
}

// reader reads one table.
type reader struct {
	*nftables.Conn
	layout
	table *nftables.Table
	owner string
	out   Table
}

// read reads the mark, and of a table of ours the elements and the rules.
func (r *reader) read() error {
	for _, name := range []string{setOwner, setRefused, setRefusedLink, mapSilent} {
		set, err := r.GetSetByName(r.table, name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		elements, err := r.GetSetElements(set)
		if err != nil {
			return err
		}
		for _, e := range elements {
			r.element(name, e)
		}
		if name == setOwner && r.out.Owner != r.owner {
			return nil
		}
	}
	return r.form()
}

func (r *reader) element(set string, e nftables.SetElement) {
	switch {
	case set == setOwner && bytes.Equal(e.Key, ownerKey(r.owner)):
		r.out.Owner = r.owner
	case set == setOwner:
		r.out.Owner = e.Comment
	case set == setRefused && len(e.Key) == int(r.size):
		a, _ := netip.AddrFromSlice(e.Key)
		r.out.Refused[Address{Addr: a}] = true
	case set == setRefusedLink && len(e.Key) == 16+unix.IFNAMSIZ:
		a, _ := netip.AddrFromSlice(e.Key[:16])
		r.out.Refused[Address{a, unix.ByteSliceToString(e.Key[16:])}] = true
	case set == mapSilent && len(e.Val) == 4:
		r.out.Silent[unix.ByteSliceToString(e.Key)] = int(binaryutil.NativeEndian.Uint32(e.Val))
	}
}

// form reads chains and rules.
func (r *reader) form() error {
	chains, err := r.ListChainsOfTableFamily(r.family)
	if err != nil {
		return err
	}
	forms := map[string]string{}
	for _, c := range chains {
		if c.Table.Name != r.table.Name {
			continue
		}
		form, err := r.chain(c)
		if err != nil {
			return err
		}
		forms[c.Name] = form
	}
	for _, name := range []string{chainIn, chainOut} {
		if form, ok := forms[name]; ok {
			if r.out.Form != "" {
				r.out.Form += "; "
			}
			r.out.Form += form
			delete(forms, name)
		}
	}
	for name := range forms {
		r.out.Form += "; chain " + name
	}
	return nil
}

// chain reads one chain.
func (r *reader) chain(c *nftables.Chain) (string, error) {
	rules, err := r.GetRules(r.table, c)
	if err != nil {
		return "", err
	}
	hook := map[string]*nftables.ChainHook{chainIn: nftables.ChainHookInput, chainOut: nftables.ChainHookOutput}[c.Name]
	if hook == nil || c.Hooknum == nil || *c.Hooknum != *hook || c.Priority == nil || c.Type != nftables.ChainTypeFilter {
		return c.Name + " with another hook", nil
	}
	names, counted := []string{}, 0
	for _, rule := range rules {
		name, _ := userdata.GetString(rule.UserData, userdata.TypeComment)
		names = append(names, name)
		for _, e := range rule.Exprs {
			if _, ok := e.(*expr.Counter); ok {
				counted++
			}
		}
	}
	return chainForm(c.Name, int32(*c.Priority), names, counted == len(rules)), nil
}
