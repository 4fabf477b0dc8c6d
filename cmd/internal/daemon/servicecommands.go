package daemon

import (
	"fmt"

	"vipd/cmd/internal/notify"
	"vipd/conf"
	"vipd/healthcheck"
	"vipd/ipvs/plan"
)

// commandRunner runs the commands of services; nothing in it blocks.
type commandRunner interface {
	Run(e notify.Event, commands ...notify.Command)
}

// serviceCommands are what is run when a service or one of its servers goes or comes.
type serviceCommands struct {
	service upDownCommands
	servers []upDownCommands // nil: none has any
}

// upDownCommands are quorum_up and quorum_down, or notify_up and notify_down.
type upDownCommands struct{ up, down notify.Command }

// newServiceCommands settles who runs the commands of a service, and what they find in their environment.
func newServiceCommands(g conf.Global, v *conf.VirtualServer) serviceCommands {
	both := func(up, down conf.Command, env ...string) upDownCommands {
		if len(up.Argv)+len(down.Argv) == 0 {
			return upDownCommands{} // of most servers: thousands of environments that nobody needs
		}
		out := upDownCommands{command(g, up), command(g, down)}
		env = append([]string{"VIPD_SERVICE=" + identity(v).String()}, env...)
		out.up.Env = append(env[:len(env):len(env)], "VIPD_STATE=UP")
		out.down.Env = append(env[:len(env):len(env)], "VIPD_STATE=DOWN")
		return out
	}
	out := serviceCommands{service: both(v.Up, v.Down)}
	for i := range v.RealServers {
		r := &v.RealServers[i]
		if len(r.Up.Argv)+len(r.Down.Argv) == 0 {
			continue
		}
		if out.servers == nil {
			out.servers = make([]upDownCommands, len(v.RealServers))
		}
		out.servers[i] = both(r.Up, r.Down, "VIPD_SERVER="+r.Address.String())
	}
	return out
}

// any reports whether there are commands.
func (s *serviceCommands) any() bool { return s.servers != nil || s.service.any() }

func (c *upDownCommands) any() bool { return len(c.up.Argv)+len(c.down.Argv) > 0 }

// server returns the commands of a server.
func (s *serviceCommands) server(i int) upDownCommands {
	if s.servers == nil {
		return upDownCommands{}
	}
	return s.servers[i]
}

// Commands says who runs commands, in the next Configure.
func (b *balancer) Commands(g conf.Global) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.global = g
}

// tellServer reports a server that has come or gone. Called with mu held.
func (b *balancer) tellServer(s *balancedService, i int, up bool) {
	id := serverID{s.id, s.conf.RealServers[i].Address}
	b.event(fmt.Sprintf("RS %s %s %s", serverWords(id), serviceWords(s.id), upDown(up)))
	b.runCommand(s.id, id.address.String()+" "+upDown(up), s.run.server(i), up)
}

// tellQuorum reports that the quorum of a service was reached or lost. Called with mu held.
func (b *balancer) tellQuorum(s *balancedService, up bool) {
	b.event(fmt.Sprintf("VS %s %s", serviceWords(s.id), upDown(up)))
	b.runCommand(s.id, upDown(up), s.run.service, up)
}

func (b *balancer) runCommand(key serviceID, state string, c upDownCommands, up bool) {
	run := c.down
	if up {
		run = c.up
	}
	if b.run != nil && len(run.Argv) > 0 {
		b.run.Run(notify.Event{Kind: notify.Service, Name: key.String(), State: state}, run)
	}
}

// tellGone reports the live servers and services that a new configuration has taken away, as keepalived does with or
// without omega. Called with mu held.
func (b *balancer) tellGone(old []balancedService) {
	now := make(map[serviceID]*conf.VirtualServer, len(b.servers)) // what only ends its connections has gone, too
	for i := range b.servers {
		now[identity(&b.servers[i])] = &b.servers[i]
	}
	for i := range old {
		v := now[old[i].id]
		if v != nil && sameServers(v.RealServers, old[i].conf.RealServers) {
			continue
		}
		stay := map[serverID]bool{{service: old[i].id}: v != nil}
		if v != nil {
			for j := range v.RealServers {
				stay[serverID{old[i].id, v.RealServers[j].Address}] = true
			}
		}
		b.tellEnd(&old[i], func(id serverID) bool { return !stay[id] && !old[i].going(id.address) })
	}
}

// Omega reports at the stop, for services with omega, that their live servers and they themselves go.
func (b *balancer) Omega() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return
	}
	b.ended = true
	for i := range b.services {
		if b.services[i].conf.Omega {
			b.tellEnd(&b.services[i], func(id serverID) bool { return !b.services[i].going(id.address) })
		}
	}
}

// tellEnd reports of a service what goes and was up. Called with mu held.
func (b *balancer) tellEnd(s *balancedService, goes func(serverID) bool) {
	for i := range s.conf.RealServers {
		if goes(serverID{s.id, s.conf.RealServers[i].Address}) && s.servers[i].told != healthcheck.Down {
			b.tellServer(s, i, false)
		}
	}
	if goes(serverID{service: s.id}) && b.states[s.id] == plan.StateUp {
		b.tellQuorum(s, false)
	}
}
