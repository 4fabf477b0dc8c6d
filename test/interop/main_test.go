// Package interop runs vipd beside Debian's keepalived in every combination that
// a site may be in during a migration, lets things fail, and writes what it saw
// as a table: docs/interop.md. By `go test` alone it runs a few of them.
//
// A site is a pair or a triple of directors with several virtual routers at
// once, one for each row of the table: they differ in protocol, family, password
// and preemption. All directors go through one list of events; each cell of the
// table is one event of one row, judged by the addresses in the kernels, the
// adverts on the wire, the replies that a client gets, and the daemons' logs.
package interop

import (
	"testing"

	"vipd/test/lab"
)

func TestMain(m *testing.M) { lab.MainHost(m) }
