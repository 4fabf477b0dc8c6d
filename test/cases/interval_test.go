package cases

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// O11: in version 2 an interval of 0.5 s behaves as 1 s, and one of 0.4 s becomes
// 0 and floods the wire.
//
// Claim: version 2 takes whole seconds, 1..255, and version 3 0.01..40.95 s in
// steps of 10 ms; adverts are sent at that very interval and say so. Everything
// else is refused with the line and both ranges, by check and by run, and nothing
// is sent.
func TestO11AdvertIntervals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version  int
		interval string
		allowed  string // in the refusal; "" when it is good
	}{
		{2, "0.4", "1..255"}, {2, "0.5", "1..255"}, {2, "1.5", "1..255"}, {2, "0", ""}, {2, "256", ""}, {2, "-1", ""},
		{3, "0", ""}, {3, "0.001", ""}, {3, "0.015", "0.01 to 40.95"}, {3, "41", "0.01 to 40.95"}, {3, "256", ""},
	} {
		t.Run(fmt.Sprintf("refused: version %d, %s", c.version, c.interval), func(t *testing.T) {
			t.Parallel()
			refused(t, c.version, c.interval, c.allowed)
		})
	}
	for _, c := range []struct {
		version  int
		interval string
	}{{2, "1"}, {2, "2"}, {3, "0.01"}, {3, "0.4"}} {
		t.Run(fmt.Sprintf("kept: version %d, %s", c.version, c.interval), func(t *testing.T) {
			t.Parallel()
			kept(t, c.version, c.interval)
		})
	}
	for _, c := range []struct {
		version  int
		interval string
		seconds  float64
	}{{2, "255", 255}, {3, "40.95", 40.95}} {
		t.Run(fmt.Sprintf("accepted: version %d, %s", c.version, c.interval), func(t *testing.T) {
			t.Parallel()
			owner(t, c.version, c.interval, c.seconds)
		})
	}
}

// intervalConf has the interval in line 6. Priority 255 sends without waiting for
// anybody.
func intervalConf(version int, interval string, priority int) string {
	return fmt.Sprintf("[vrrp_instance.VI_1]\ninterface = \"eth0\"\nvirtual_router_id = 51\npriority = %d\nversion = %d\nadvert_int = %s\nvirtual_ipaddress = [\"%v\"]\n",
		priority, version, interval, lab.VIP())
}

func refused(t *testing.T, version int, interval, allowed string) {
	l := lab.New(t, "d1", "cl")
	d1 := l.Node("d1")
	seen := l.Node("cl").Capture()
	file := filepath.Join(l.Dir(), "vipd.toml")
	if err := os.WriteFile(file, []byte(intervalConf(version, interval, 255)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{
		"check": {"check", "-c", file},
		"run":   {"run", "-c", file, "--socket", filepath.Join(l.Dir(), "s"), "--state-dir", filepath.Join(l.Dir(), "state")},
	} {
		out, err := d1.Try(append([]string{lab.VipdBin(t)}, argv...)...)
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("vipd %s ends with %v, want exit status 2", name, err)
		}
		if !strings.Contains(out, "vipd.toml:6:") || !strings.Contains(out, "error: vrrp_instance.VI_1.advert_int: ") || !strings.Contains(out, allowed) {
			t.Errorf("vipd %s does not name the line, the key and the range %q:\n%s", name, allowed, out)
		}
	}
	time.Sleep(200 * time.Millisecond)
	if got := seen.Adverts(0); len(got) > 0 {
		t.Errorf("%d adverts were sent all the same: %v", len(got), got[0])
	}
}

// kept checks the rate on the wire against what the packets say.
func kept(t *testing.T, version int, interval string) {
	want, err := time.ParseDuration(interval + "s")
	if err != nil {
		t.Fatal(err)
	}
	l := lab.New(t, "d1", "cl")
	seen := l.Node("cl").Capture()
	l.Node("d1").Vipd(intervalConf(version, interval, 200))
	first := seen.WaitAdvert(15*time.Second, 51, netip.Addr{}, time.Time{})
	span := max(5*want, 2*time.Second) + want/2
	exact := int(span/want) + 1
	var counts []int
	for from := first.At; len(counts) < 3; {
		time.Sleep(time.Until(from.Add(span + 100*time.Millisecond)))
		adverts := lab.Between(seen.Adverts(51), from, from.Add(span))
		for _, a := range adverts {
			if a.Interval != want || int(a.Version) != version {
				t.Fatalf("an advert says version %d, %v; want %d, %v", a.Version, a.Interval, version, want)
			}
		}
		if len(adverts) > exact*11/10 {
			t.Fatalf("%d adverts in %v, want %d", len(adverts), span, exact)
		}
		// A busy machine may leave some of the shortest out, but not for ever.
		if len(adverts) >= exact*9/10 {
			return
		}
		counts = append(counts, len(adverts))
		next, _ := lab.FirstAfter(seen.Adverts(51), from.Add(span))
		from = next.At
	}
	t.Errorf("%v adverts, each in %v, want %d", counts, span, exact)
}

// owner checks the longest intervals by what the first advert says.
func owner(t *testing.T, version int, interval string, seconds float64) {
	l := lab.New(t, "d1", "cl")
	seen := l.Node("cl").Capture()
	l.Node("d1").Vipd(intervalConf(version, interval, 255))
	first := seen.WaitAdvert(10*time.Second, 51, netip.Addr{}, time.Time{})
	if want := time.Duration(seconds * float64(time.Second)); first.Interval != want {
		t.Errorf("the advert says %v, want %v", first.Interval, want)
	}
	time.Sleep(3 * time.Second)
	if got := seen.Adverts(51); len(got) != 1 {
		t.Errorf("%d adverts within 3 s, want 1", len(got))
	}
}
