package interop

import (
	"strings"
	"syscall"
	"time"

	"vipd/test/lab"
)

// director is one of a site: a node and the daemon that it runs.
type director struct {
	site  site
	nodes []*lab.Node
	place int
	conf  written

	vipd *lab.Daemon
	proc *lab.Process // whichever daemon runs, or ran last
	read int          // how much of its log was looked at
}

func (d *director) node() *lab.Node { return d.nodes[d.place] }
func (d *director) isVipd() bool    { return d.site.order[d.place] == 'v' }

func (d *director) start() time.Time {
	at := time.Now()
	conf := d.site.conf(d.nodes, d.place, d.conf)
	if d.isVipd() {
		d.vipd = d.node().Vipd(conf)
		d.proc = d.vipd.Process
	} else {
		d.proc = d.node().Keepalived(conf)
	}
	d.read = 0
	return at
}

func (d *director) reload() time.Time {
	conf := d.site.conf(d.nodes, d.place, d.conf)
	if d.isVipd() {
		return d.vipd.Reload(conf)
	}
	return d.node().ReloadKeepalived(d.proc, conf)
}

// news is what the daemon has logged since the last look.
func (d *director) news() []string {
	text := d.proc.Log()
	end := strings.LastIndexByte(text, '\n') + 1
	if end < d.read {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(text[d.read:end]), "\n")
	d.read = end
	return lines
}

// suffer makes the event happen and returns the time just before.
func (d *director) suffer(what action) time.Time {
	n := d.node()
	switch what {
	case cut:
		at := n.Isolate(0)
		n.Isolate(1)
		return at
	case heal:
		at := n.Rejoin(0)
		n.Rejoin(1)
		return at
	case linkDown:
		return n.PortDown(0)
	case linkUp:
		return n.PortUp(0)
	case stop:
		at := d.proc.Signal(syscall.SIGTERM)
		d.proc.Wait(15 * time.Second)
		return at
	case killMain:
		return d.proc.KillAlone()
	case killAll:
		return d.proc.Kill()
	case reload:
		d.conf.excluded = true
		return d.reload()
	case reloadVIP:
		d.conf.vip = true
		return d.reload()
	}
	return d.start()
}
