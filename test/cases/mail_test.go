package cases

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"vipd/test/lab"
)

// mailed runs one daemon through a life and returns the mails of each instance and
// group as subject and first line, in order: A and B are a group, C is removed by a
// reload with notify_deleted, D without, E has smtp_alert off. cut tells that the
// machine was too slow for the last mails, and that vipd said so.
func mailed(t *testing.T, keepalived bool) (all map[string][]string, mails []lab.Mail, cut bool) {
	l := lab.New(t, "d1")
	d1 := l.Node("d1")
	relay := d1.MailRelay(2525)
	instances := func(names string) []lab.Instance {
		var list []lab.Instance
		for i, n := range "ABCDE" {
			in := lab.Instance{Name: string(n), VRID: uint8(51 + i), Priority: 200, Interval: quick, VIPs: []netip.Addr{mustAddr(fmt.Sprintf("10.9.0.%d", 100+i))}}
			switch n {
			case 'C':
				in.Extra = []string{"notify_deleted"}
			case 'E':
				in.Extra = []string{"smtp_alert false"}
			}
			if strings.ContainsRune(names, n) {
				list = append(list, in)
			}
		}
		return list
	}
	var p *lab.Process
	var reload func()
	if keepalived {
		before := "global_defs {\n notification_email {\n ops@example.com\n noc@example.com\n }\n notification_email_from lvs@example.com\n" +
			" smtp_server 10.9.0.1 2525\n smtp_helo_name lvs-1.example.com\n router_id R1\n smtp_alert true\n}\nvrrp_sync_group G {\n group {\n A\n B\n }\n}\n"
		p = d1.Keepalived(lab.KeepalivedConf(before, instances("ABCDE")...))
		file := filepath.Join(l.Dir(), "d1", "keepalived", "keepalived.conf")
		reload = func() {
			if err := os.WriteFile(file, []byte(lab.KeepalivedConf(before, instances("ABE")...)), 0o600); err != nil {
				t.Fatal(err)
			}
			p.Signal(syscall.SIGHUP)
		}
	} else {
		config := func(names string) string {
			return lab.VipdConf("[global_defs]\nnotification_email = [\"ops@example.com\", \"noc@example.com\"]\nnotification_email_from = \"lvs@example.com\"\n"+
				"smtp_server = \"10.9.0.1 2525\"\nsmtp_helo_name = \"lvs-1.example.com\"\nrouter_id = \"R1\"\nsmtp_alert = true\n", instances(names)...) +
				"\n[vrrp_sync_group.G]\ngroup = [\"A\", \"B\"]\n"
		}
		v := d1.Vipd(config("ABCDE"))
		p, reload = v.Process, func() { v.Reload(config("ABE")) }
	}
	object := regexp.MustCompile(`^\[R1\] VRRP (?:Instance|Group) (\w+) - `)
	sorted := func() map[string][]string {
		got := map[string][]string{}
		for _, m := range relay.Mails() {
			name := object.FindStringSubmatch(m.Subject)
			if name == nil {
				t.Fatalf("a mail about %q", m.Subject)
			}
			first, _, _ := strings.Cut(m.Body, "\r\n")
			got[name[1]] = append(got[name[1]], m.Subject+" | "+first)
		}
		return got
	}
	has := func(word string, n int) {
		t.Helper()
		l.Eventually(10*time.Second, fmt.Sprintf("%d mails of A, the last %q", n, word), func() bool {
			got := sorted()
			a := got["A"]
			return len(a) == n && strings.Contains(a[n-1], word) && len(got["B"]) == n && len(got["G"]) == n
		})
	}
	has("MASTER", 2)
	l.Eventually(10*time.Second, "C and D are master", func() bool { return len(sorted()["C"]) == 2 && len(sorted()["D"]) == 2 })
	reload()
	l.Eventually(10*time.Second, "C is deleted", func() bool { return len(sorted()["C"]) == 3 && len(sorted()["D"]) == 3 })
	d1.LinkDown(0)
	l.Eventually(10*time.Second, "a fault is logged", func() bool { return strings.Contains(strings.ToUpper(p.Log()), "FAULT") })
	time.Sleep(300 * time.Millisecond)
	d1.LinkUp(0) // the relay is on an address of this interface; lost ones wait
	has("MASTER", 5)
	p.Stop(10 * time.Second)
	time.Sleep(200 * time.Millisecond)
	for line := range strings.Lines(p.Log()) {
		if strings.Contains(line, "mail dropped: vipd stops") {
			cut = true
		} else if strings.Contains(line, " ERROR ") || strings.Contains(line, "panic") {
			t.Errorf("in the log: %s", line)
		}
	}
	return sorted(), relay.Mails(), cut
}

// The mails of a life: subjects, words, recipients and order are those that Debian's
// keepalived sends in the same run; at the stop vipd's last mails arrive, keepalived's
// rarely do.
func TestSameMailAsKeepalived(t *testing.T) {
	t.Parallel()
	const owning, lost = "=> VRRP Instance is now owning VRRP VIPs <=", "=> VRRP Instance is no longer owning VRRP VIPs <="
	line := func(kind, name, what, body string) string {
		return fmt.Sprintf("[R1] VRRP %s %s - %s | %s", kind, name, what, body)
	}
	want := map[string][]string{}
	for _, n := range []string{"A", "B", "C", "D"} {
		want[n] = []string{line("Instance", n, "Entering BACKUP state", lost), line("Instance", n, "Entering MASTER state", owning)}
		if n < "C" {
			want[n] = append(want[n], line("Instance", n, "Entering FAULT state", lost), want[n][0], want[n][1])
		}
	}
	want["D"] = append(want["D"], line("Instance", "D", "Entering FAULT state", lost))
	want["C"] = append(want["C"], line("Instance", "C", "Deleted", "=> VRRP Deleted at reload <="))
	for _, s := range []string{"BACKUP", "MASTER", "FAULT", "BACKUP", "MASTER"} {
		want["G"] = append(want["G"], line("Group", "G", "Entering "+s+" state", "=> All VRRP group instances are now in "+s+" state <="))
	}
	stops := map[string]string{
		"A": line("Instance", "A", "Stopping", "=> VRRP Instance stopping <="), "B": line("Instance", "B", "Stopping", "=> VRRP Instance stopping <="),
		"G": line("Group", "G", "Stopping", "=> All VRRP group instances are now stopping <="),
	}
	for name, keepalived := range map[string]bool{"vipd": false, "keepalived": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, mails, cut := mailed(t, keepalived)
			expected := maps.Clone(want)
			for n, s := range stops {
				// keepalived rarely gets them out; when it does they are the same.
				if list := got[n]; (keepalived || cut) && (len(list) == 0 || list[len(list)-1] != s) {
					continue
				}
				expected[n] = append(slices.Clone(expected[n]), s)
			}
			for _, n := range slices.Sorted(maps.Keys(expected)) {
				if !slices.Equal(got[n], expected[n]) {
					t.Errorf("mails of %s\n%s\nwant\n%s", n, strings.Join(got[n], "\n"), strings.Join(expected[n], "\n"))
				}
			}
			if got["E"] != nil {
				t.Errorf("mail of E, whose smtp_alert is off: %q", got["E"])
			}
			for _, m := range mails {
				to, err := m.Header.AddressList("To")
				if m.From != "lvs@example.com" || !slices.Equal(m.To, []string{"ops@example.com", "noc@example.com"}) || m.Helo != "lvs-1.example.com" ||
					err != nil || len(to) != 2 || to[0].Address != "ops@example.com" || to[1].Address != "noc@example.com" {
					t.Errorf("mail from %s (%s) to %v, header To %v", m.From, m.Helo, m.To, to)
				}
				if date, err := m.Header.Date(); err != nil || m.At.Sub(date) > time.Minute || m.At.Sub(date) < 0 {
					t.Errorf("a mail of %v has the date %v (%v)", m.At, date, err)
				}
			}
		})
	}
}

// A relay that takes connections and says nothing (a tarpit), or is not there.
//
// Claim: the takeover comes as fast as without mail, adverts are regular, status says
// why mail waits, the stop is not delayed by more than a second, and a relay that
// comes to its senses gets every mail, in order.
func TestMailRelayInTrouble(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]lab.Mode{"tarpit": lab.Hang, "gone": lab.Refuse} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mail := "[global_defs]\nnotification_email = \"ops@example.com\"\nsmtp_server = \"10.9.0.9 25\"\nsmtp_connect_timeout = 2\nsmtp_alert = true\nrouter_id = \"R1\"\n"
			conf := func(prio int) string { return mail + bothFamilies(lab.Instance{Priority: prio, Interval: quick}) }
			l := lab.New(t, "d1", "d2", "cl")
			relay := l.Node("cl").MailRelay(25)
			relay.SetMode(mode)
			seen := l.Node("cl").Capture()
			p := &pair{Lab: l, t: t, d1: l.Node("d1"), d2: l.Node("d2"), cl: l.Node("cl"), seen: seen}
			p.v1 = p.d1.Vipd(conf(200))
			for _, f := range families() {
				l.WaitOwner(f.vip, 15*time.Second, "d1")
			}
			p.v2 = p.d2.Vipd(conf(100))
			for _, f := range families() {
				p.v2.WaitState(f.instance, "BACKUP", 10*time.Second)
			}
			at := p.v1.Stop(10 * time.Second)
			stopped := time.Since(at) - seen.Stalled(at, time.Now())
			for _, f := range families() {
				last, ok := lab.LastBefore(lab.From(seen.Adverts(f.vrid), f.source(p.d1)), time.Now())
				if !ok || last.Priority != 0 || last.At.Sub(at) > time.Second+seen.Stalled(at, last.At) {
					t.Errorf("%s: the last advert of d1 is %v, want priority 0 at once", f.name, last)
				}
				l.WaitOwner(f.vip, 5*time.Second, "d2")
			}
			for _, f := range families() {
				first := seen.WaitAdvert(2*time.Second, f.vrid, f.source(p.d2), at)
				if late := first.At.Sub(at); late > time.Second+seen.Stalled(at, first.At) {
					t.Errorf("%s: the first advert of d2 came %v after the stop of d1: mail or not, it takes the skew time", f.name, late)
				}
			}
			if stopped > 3*time.Second { // one of them is for the last mails
				t.Errorf("the stop of d1 took %v", stopped)
			}
			from := time.Now()
			time.Sleep(2 * time.Second)
			for _, f := range families() {
				steady(t, seen, f.vrid, f.source(p.d2), 100, quick, from)
			}
			l.Eventually(10*time.Second, "status tells of four mails that wait", func() bool {
				out, err := p.v2.Ctl("status")
				return err == nil && strings.Contains(out, "ALARM: mail: 4 wait: ")
			})
			relay.SetMode(lab.Answer)
			l.Eventually(60*time.Second, "all mails of d2", func() bool { return len(relay.Mails()) == 4 })
			for _, f := range families() {
				var got []string
				for _, m := range relay.Mails() {
					if strings.Contains(m.Subject, f.instance) {
						got = append(got, m.Subject)
					}
				}
				if want := []string{"[R1] VRRP Instance " + f.instance + " - Entering BACKUP state", "[R1] VRRP Instance " + f.instance + " - Entering MASTER state"}; !slices.Equal(got, want) {
					t.Errorf("mails %q, want %q", got, want)
				}
			}
			if c := p.v2.Status().Counters; fmt.Sprint(c["mail_sent"], c["mail_waiting"]) != "4 0" || fmt.Sprint(c["mail_failed"]) == "0" {
				t.Errorf("counters sent %v, waiting %v, failed %v", c["mail_sent"], c["mail_waiting"], c["mail_failed"])
			}
		})
	}
}
