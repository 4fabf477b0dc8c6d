package mail

import (
	"fmt"
	"strings"
	"unicode"
)

// subjectMax bounds a subject, in characters.
const subjectMax = 500

// Message is one mail before it has a date and addresses.
type Message struct{ Subject, Body string }

// The words of keepalived for states that are mailed, and what it writes then.
var (
	stateSubjects = map[string]string{
		"MASTER": "Entering MASTER state", "BACKUP": "Entering BACKUP state", "FAULT": "Entering FAULT state",
		"STOP": "Stopping", "DELETED": "Deleted",
	}
	instanceBodies = map[string]string{
		"MASTER": "VRRP Instance is now owning VRRP VIPs", "BACKUP": "VRRP Instance is no longer owning VRRP VIPs",
		"FAULT": "VRRP Instance is no longer owning VRRP VIPs", "STOP": "VRRP Instance stopping", "DELETED": "VRRP Deleted at reload",
	}
	groupBodies = map[string]string{
		"MASTER": "All VRRP group instances are now in MASTER state", "BACKUP": "All VRRP group instances are now in BACKUP state",
		"FAULT": "All VRRP group instances are now in FAULT state", "STOP": "All VRRP group instances are now stopping",
		"DELETED": "VRRP Deleted at reload",
	}
)

// Instance is the mail of a change of state of an instance, or with group of a
// sync group, in keepalived's words; reason is added to them. It reports false
// for a state that is not mailed.
func Instance(routerID string, group bool, name, state, reason string) (Message, bool) {
	kind, bodies := "Instance", instanceBodies
	if group {
		kind, bodies = "Group", groupBodies
	}
	what, ok := stateSubjects[state]
	return message(fmt.Sprintf("[%s] VRRP %s %s - %s", routerID, kind, name, what), bodies[state], reason), ok
}

// Service is the mail of a service whose quorum was reached or lost. service is
// in keepalived's form; start says that it is the first thing that is known of it.
func Service(routerID, service string, up, start bool, quorum, live int) Message {
	state, change := "DOWN", "Lost quorum"
	switch {
	case up && start:
		state, change = "UP", "Starting with quorum up"
	case up:
		state, change = "UP", "Gained quorum"
	}
	return message(fmt.Sprintf("[%s] Virtualserver %s - %s", routerID, service, state),
		fmt.Sprintf("%s %d+0=%d <= %d", change, quorum, quorum, live), "")
}

// Server is the mail of a real server that went or came. check is the kind of the
// check that decided and detail what it found.
func Server(routerID, server, service string, up bool, check, detail string) Message {
	state, result := "DOWN", "failed"
	if up {
		state, result = "UP", "succeed"
	}
	body := fmt.Sprintf("CHECK %s on service", result)
	if check == "TCP_CHECK" {
		body = "TCP " + body
	}
	return message(fmt.Sprintf("[%s] Realserver %s of virtual server %s - %s", routerID, server, service, state), body, detail)
}

// message puts the text of a mail together.
func message(subject, body, more string) Message {
	text := "=> " + body + " <=\n"
	if more != "" {
		text += "\n" + more + "\n"
	}
	return Message{Subject: subject, Body: text}
}

// clean makes text safe for a header: no line break or other control character
// gets through, and it has an end.
func clean(s string) string {
	out := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(out); len(r) > subjectMax {
		out = string(r[:subjectMax])
	}
	return out
}

// cleanBody makes text safe for a body: of all control characters only ends of lines
// get through, in the form of mail.
func cleanBody(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = clean(l)
	}
	return strings.Join(lines, "\r\n")
}
