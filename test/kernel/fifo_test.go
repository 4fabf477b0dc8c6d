package kernel

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vipd/test/lab"
)

// lvs_notify_fifo has the lines that Debian's keepalived (2.2.7) writes for the same
// services when their only server dies and comes back.
func TestServiceFIFO(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	fifo, out := s.Dir()+"/fifo", s.Dir()+"/lines"
	other := s.serve(95, 1)[0]
	v := s.start("[global_defs]\nlvs_notify_fifo = \"" + fifo + "\"\n" + alone(
		service(on(95, "rr", "DR", ""), "10.9.0.11:95"),
		checked("fwmark = 7\nlvs_sched = \"rr\"\nlvs_method = \"DR\"\n", "[virtual_server.TCP_CHECK]\nconnect_port = 95\n", "10.9.0.11"),
	))[0]
	s.d[0].Start("reader", "sh", "-c", "cat "+fifo+" >>"+out)
	lines := func() []string {
		b, err := os.ReadFile(out)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
	// The two services are checked apart, so their lines may mingle.
	want := map[string][]string{
		"[10.9.0.100]:tcp:95": {"VS [10.9.0.100]:tcp:95 UP"},
		"FWM 7":               {"VS FWM 7 UP"},
	}
	expect := func(word string) {
		t.Helper()
		s.Eventually(outWithin+5*time.Second, "all lines of "+word, func() bool {
			for service, w := range want {
				got := slices.DeleteFunc(lines(), func(l string) bool { return !strings.Contains(l, service) })
				if !slices.Equal(got, w) {
					return false
				}
			}
			return true
		})
	}
	expect("the start")
	for _, c := range []struct {
		mode lab.Mode
		word string
	}{{lab.Refuse, "DOWN"}, {lab.Answer, "UP"}} {
		other.SetMode(c.mode)
		want["[10.9.0.100]:tcp:95"] = append(want["[10.9.0.100]:tcp:95"],
			"RS [10.9.0.11]:tcp:95 [10.9.0.100]:tcp:95 "+c.word, "VS [10.9.0.100]:tcp:95 "+c.word)
		want["FWM 7"] = append(want["FWM 7"], "RS [10.9.0.11]:none:0 FWM 7 "+c.word, "VS FWM 7 "+c.word)
		expect(c.word)
	}
	if !v.Running() {
		t.Error("vipd does not run any more")
	}
}
