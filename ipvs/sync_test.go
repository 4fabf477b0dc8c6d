package ipvs

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestDaemonDoes: what the kernel fills in is no difference, everything else is.
func TestDaemonDoes(t *testing.T) {
	shown := Daemon{Role: SyncBackup, Interface: "eth0", ID: 5, MaxLen: 1472, Port: 8848, TTL: 1, Group: DefaultSyncGroup()}
	want := Daemon{Role: SyncBackup, Interface: "eth0", ID: 5}
	if !shown.Does(want) {
		t.Error("the kernel's defaults are a difference")
	}
	for name, change := range map[string]func(*Daemon){
		"role": func(d *Daemon) { d.Role = SyncMaster }, "interface": func(d *Daemon) { d.Interface = "eth1" }, "id": func(d *Daemon) { d.ID = 6 },
		"maxlen": func(d *Daemon) { d.MaxLen = 1400 }, "port": func(d *Daemon) { d.Port = 1 }, "ttl": func(d *Daemon) { d.TTL = 2 },
		"group": func(d *Daemon) { d.Group = netip.MustParseAddr("ff02::81") },
	} {
		other := want
		if change(&other); shown.Does(other) {
			t.Errorf("another %s is no difference", name)
		}
	}
	short := want
	short.MaxLen, shown.MaxLen = 200, 1024
	if !shown.Does(short) {
		t.Error("the least room of a backup is a difference")
	}
	for _, c := range []struct {
		role       Role
		group      string
		asked, has uint16
		same       bool
	}{
		// maxlen was taken out: the kernel keeps what it was told.
		{SyncMaster, "224.0.0.81", 0, 1000, false}, {SyncBackup, "224.0.0.81", 0, 1024, false},
		{SyncMaster, "224.0.0.81", 0, 1472, true}, {SyncMaster, "ff02::81", 0, 1452, true},
		{SyncBackup, "224.0.0.81", 0, 8972, true}, {SyncBackup, "ff02::81", 0, 1452, true}, // MTU 9000, 1500
		// The most that fits into a packet is less with IPv6.
		{SyncMaster, "ff02::81", 65507, 65487, true}, {SyncBackup, "ff02::81", 65507, 65487, true},
		{SyncMaster, "224.0.0.81", 65507, 65507, true}, {SyncMaster, "224.0.0.81", 65507, 65487, false},
		{SyncMaster, "224.0.0.81", 200, 1024, false}, {SyncMaster, "224.0.0.81", 1000, 0, true},
	} {
		d := Daemon{Role: c.role, Interface: "eth0", Group: netip.MustParseAddr(c.group)}
		asked, has := d, d
		asked.MaxLen, has.MaxLen = c.asked, c.has
		if has.Does(asked) != c.same {
			t.Errorf("%v to %s, maxlen %d asked for, the kernel has %d: the same: %v", c.role, c.group, c.asked, c.has, !c.same)
		}
	}
	if got := shown.String(); got != "--start-daemon backup --mcast-interface eth0 --syncid 5 --sync-maxlen 1024 --mcast-group 224.0.0.81 --mcast-port 8848 --mcast-ttl 1" {
		t.Error(got)
	}
}

// TestDaemonChanges: the changes lead to what is wanted, and touch nothing that is right.
func TestDaemonChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		some := func() (out []Daemon) {
			for _, role := range []Role{SyncMaster, SyncBackup} {
				if rapid.Bool().Draw(r, "runs") {
					out = append(out, Daemon{Role: role, Interface: rapid.SampledFrom([]string{"eth0", "eth1"}).Draw(r, "interface"), ID: uint8(rapid.IntRange(0, 2).Draw(r, "id"))})
				}
			}
			return out
		}
		have, want := some(), some()
		stop, start := DaemonChanges(have, want)
		after := slices.DeleteFunc(slices.Clone(have), func(d Daemon) bool { return slices.Contains(stop, d.Role) })
		for _, d := range start {
			if slices.ContainsFunc(after, func(h Daemon) bool { return h.Role == d.Role }) {
				r.Fatalf("%v is started while it runs", d)
			}
			after = append(after, d)
		}
		slices.SortFunc(after, func(a, b Daemon) int { return int(a.Role) - int(b.Role) })
		if !slices.Equal(after, want) {
			r.Fatalf("from %v to %v led to %v", have, want, after)
		}
		for _, h := range have {
			if slices.Contains(want, h) && slices.Contains(stop, h.Role) {
				r.Fatalf("%v is stopped although it is wanted", h)
			}
		}
	})
}

func TestTimeouts(t *testing.T) {
	is := Timeouts{900 * time.Second, 120 * time.Second, 300 * time.Second}
	for _, c := range []struct {
		want    Timeouts
		differs bool
	}{{Timeouts{}, false}, {is, false}, {Timeouts{TCP: 900 * time.Second}, false}, {Timeouts{TCP: 901 * time.Second}, true},
		{Timeouts{TCPFin: time.Second}, true}, {Timeouts{UDP: time.Second}, true}} {
		if is.Differs(c.want) != c.differs {
			t.Errorf("%v differs from %v: %v", is, c.want, !c.differs)
		}
		if got := is.With(c.want); got.Differs(c.want) || (got != is) != c.differs {
			t.Errorf("%v with %v is %v", is, c.want, got)
		}
	}
	if is.String() != "tcp 900s, tcpfin 120s, udp 300s" {
		t.Error(is)
	}
}

// TestParseSync: headers of both versions, and what a kernel would not take either.
func TestParseSync(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want SyncMessage
		bad  bool
	}{
		{"version 1", append([]byte{0, 7, 0, 10, 3, 1, 0, 0}, 1, 2), SyncMessage{ID: 7, Connections: 3, Version: 1}, false},
		{"version 0", []byte{2, 9, 0, 5, 0}, SyncMessage{ID: 9, Connections: 2}, false},
		{"hello", AppendHello(nil, 200), SyncMessage{ID: 200, Version: 1}, false},
		{"short", []byte{0, 7, 0}, SyncMessage{}, true},
		{"another length", []byte{0, 7, 0, 9, 3, 1, 0, 0}, SyncMessage{}, true},
		{"version 2", []byte{0, 7, 0, 8, 3, 2, 0, 0}, SyncMessage{}, true},
		{"not zero", []byte{0, 7, 0, 8, 3, 1, 0, 1}, SyncMessage{}, true},
	} {
		got, err := ParseSync(c.b)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// FuzzParseSync: anything may come from the network; what is taken has a header that says how long it is.
func FuzzParseSync(f *testing.F) {
	f.Add(AppendHello(nil, 1))
	f.Add([]byte{2, 9, 0, 5, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseSync(b)
		if err == nil && (len(b) < 4 || m.ID != b[1] || m.Connections < 0 || m.Connections > 255) {
			t.Errorf("%x: %+v", b, m)
		}
	})
}
