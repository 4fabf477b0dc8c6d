package interop

import (
	"regexp"
	"slices"
	"strings"
)

// line is one line of a daemon's log that should not be there.
type line struct {
	place int
	vipd  bool
	text  string
}

// keepalivedSays are what keepalived logs in the course of things: a line that
// begins with none of them is a complaint. "(NAME) " and the date are taken off.
var keepalivedSays = []string{
	"Sending gratuitous ARP", "Sending unsolicited Neighbour Advert", "Sending/queueing ",
	"removing VIPs.", "removing E-VIPs.", "setting VIPs.", "setting E-VIPs.",
	"Receive advertisement timeout", "Entering MASTER STATE", "Entering BACKUP STATE", "Entering FAULT STATE", "Backup received priority 0 advertisement",
	"Master received advert from ", "Received advert from ", "received lower priority ", "sent 0 priority",
	"Assigned address ", "VRRP sockpool: ", "Opening file ", "Configuration file ", "Startup complete", "Starting VRRP child process", "Starting Keepalived ",
	"Running on Linux ", "Registering ", "NOTICE: setting config option max_auto_priority", "Command line: ", "      ",
	"Stopping", "Stopped", "CPU usage ", "Reloading", "Reload complete", "Netlink reports ",
	"Changing effective priority", "VRRP_Instance", "VRRP_Group", "Syncing instances to ",
	"A thread timer expired ", // it is late, on a busy machine
	"Success removing VMAC interface", "Success creating VMAC interface", "Found matching interface", "use_vmac or no_accept/strict specified, but no firewall",
}

// dated is the date that keepalived begins a line with, and the instance it speaks of.
var dated = regexp.MustCompile(`^\w{3} \w{3} +\d+ [\d:]+ \d{4}: (\([^)]*\):? )?`)
var ownAddress = regexp.MustCompile(`^R\d: sending gratuitous (ARP|NA) for`)

// complaints are the lines that are not in the course of things, or of the event.
func complaints(d *director, e event, news []string) []line {
	var list []line
	for _, text := range news {
		if d.isVipd() && !vipdComplains(text, e, d.place) || !d.isVipd() && !keepalivedComplains(text, e, d) {
			continue
		}
		list = append(list, line{d.place, d.isVipd(), text})
	}
	return list
}

func keepalivedComplains(text string, e event, d *director) bool {
	text = dated.ReplaceAllString(text, "")
	if text == "" || e.what == reloadVIP && strings.HasPrefix(text, "received an unexpected ip number count") {
		return false // the lists do differ for a moment
	}
	mine := e.at == d.place
	switch {
	case mine && e.what == killMain && strings.HasPrefix(text, "ERROR - thread_cancel called"):
		return false // its child was told to end twice
	case mine && e.what == linkDown && strings.Contains(text, "No buffer space available"):
		return false // there is no link to send on
	}
	if text == "Master received priority 0 message" && resigns(d.site, e) || e.what == linkUp && ownAddress.MatchString(text) {
		return false
	}
	return !slices.ContainsFunc(keepalivedSays, func(begin string) bool { return strings.HasPrefix(text, begin) })
}

// resigns reports that a director with the addresses may say good-bye to a master
// in an event: the other members of its group when the first has given way, or when
// the master of all has resigned the first and is slow with the others; a keepalived
// whose link is back and keeps what it could not send before; and whoever took over
// because it did not hear its master.
func resigns(s site, e event) bool {
	joins := e.what == heal || e.what == linkUp || e.what == start || e.what == restart
	kept := s.unicast && (e.what == linkUp && s.order[e.at] == 'k' || e.what == reload && s.order[1] == 'k') // B's link was down before the reload
	return s.group && (joins || e.what == stop) || e.what == reloadVIP || kept
}

// vipdComplains reports a warning or an error that the event does not call for.
func vipdComplains(text string, e event, place int) bool {
	if !strings.Contains(text, "Z WARN ") && !strings.Contains(text, "Z ERROR ") {
		return strings.Contains(text, "panic") || strings.HasPrefix(text, "vipd: ")
	}
	mine := e.at == place
	switch {
	case mine && e.what == restart && (strings.Contains(text, "an address was here before: removed") ||
		strings.Contains(text, "left by an earlier vipd: ") || strings.Contains(text, "nftables rules were here before: removed")):
	case mine && e.what == linkDown && (strings.Contains(text, "no buffer space available") || strings.Contains(text, "virtual address not announced")): // there is no link to send on
	case mine && e.what == linkDown && strings.Contains(text, "-> FAULT"):
	case !mine && (e.what == killMain || e.what == killAll || e.what == restart) && strings.Contains(text, " answers for "): // who is killed leaves its addresses there
	case e.what == reloadVIP && strings.Contains(text, "advertises other addresses than we"):
	default:
		return true
	}
	return false
}

// daemon is who logged the line: "vipd (A)".
func (l line) daemon() string {
	name := "keepalived"
	if l.vipd {
		name = "vipd"
	}
	return name + " (" + string(rune('A'+l.place)) + ")"
}

var (
	number = regexp.MustCompile(`\d{4,}`)
	stamp  = regexp.MustCompile(`^\S+Z |^\w{3} \w{3} +\d+ [\d:]+ \d{4}: `)
)

// plain is the line without what changes from run to run.
func (l line) plain() string { return number.ReplaceAllString(stamp.ReplaceAllString(l.text, ""), "N") }
