package ipvstest_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"vipd/ipvs"
	"vipd/ipvs/ipvstest"
)

func TestFakeConforms(t *testing.T) { ipvstest.Conformance(t, ipvstest.New()) }

func TestInjectedError(t *testing.T) {
	k := ipvstest.New()
	s := ipvstest.Services()[0]
	add := ipvs.Op{Kind: ipvs.AddService, Service: s}
	k.Fail(func(op ipvs.Op) error {
		if op.Kind == ipvs.AddService {
			return unix.ENOMEM
		}
		return nil
	})
	if err := k.Apply([]ipvs.Op{add})[0]; !errors.Is(err, unix.ENOMEM) || k.String() != "" {
		t.Fatalf("%v, table %q", err, k)
	}
	k.Fail(nil)
	if err := k.Apply([]ipvs.Op{add})[0]; err != nil || k.String() != "-A -t 10.9.0.100:80 -s wlc\n" {
		t.Fatalf("%v, table %q", err, k)
	}
	if log := k.TakeLog(); len(log) != 2 || !errors.Is(log[0].Err, unix.ENOMEM) || log[1].Err != nil {
		t.Fatalf("log %v", log)
	}
}
