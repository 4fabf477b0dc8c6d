package conf

import "slices"

// itemKind is the shape of an item.
type itemKind uint8

const (
	scalarItem itemKind = iota
	tableItem
	arrayItem
)

// item is one node of a document: what the TOML library decoded, with the place
// where it stands.
type item struct {
	src    *source
	at     span // the key, the [header], or for an entry of an array the entry
	kind   itemKind
	header bool             // a table with a [header] or [[header]] of its own
	value  any              // of a scalar
	keys   []named          // of a table, in file order
	byName map[string]*item // the same, of a large table
	list   []*item          // of an array
}

// named is a key of a table.
type named struct {
	name string
	it   *item
}

// smallTable is the number of keys up to which a table is searched from one end
// to the other: nearly all are small, and maps cost more than they save.
const smallTable = 16

// child returns the item of a key, or nil.
func (it *item) child(name string) *item {
	if it.byName != nil {
		return it.byName[name]
	}
	for _, k := range it.keys {
		if k.name == name {
			return k.it
		}
	}
	return nil
}

// set adds a child under a new name.
func (it *item) set(name string, child *item) {
	it.keys = append(it.keys, named{name, child})
	if it.byName != nil {
		it.byName[name] = child
	} else if len(it.keys) > smallTable {
		it.byName = make(map[string]*item, 2*smallTable)
		for _, k := range it.keys {
			it.byName[k.name] = k.it
		}
	}
}

// replace puts a child in the place of the one that has the name, or adds it.
func (it *item) replace(name string, child *item) {
	for i := range it.keys {
		if it.keys[i].name == name {
			it.keys[i].it = child
			if it.byName != nil {
				it.byName[name] = child
			}
			return
		}
	}
	it.set(name, child)
}

// without returns a copy of a table that lacks some keys.
func (it *item) without(names ...string) *item {
	rest := *it
	rest.keys, rest.byName = nil, nil
	for _, k := range it.keys {
		if !slices.Contains(names, k.name) {
			rest.set(k.name, k.it)
		}
	}
	return &rest
}
