package conf

// maxWeight is the greatest weight that the kernel takes.
const maxWeight = 1<<31 - 1

// steeringKeys are the keys of a virtual server that say when it is up, who hears
// of it and where it is active.
var steeringKeys = append([]*key{
	{name: "hysteresis", kind: intKind, min: 0, max: 1<<31 - 2, def: 0, doc: "The quorum is reached at quorum + hysteresis, and lost below quorum - hysteresis, or when no server is left. Must be less than quorum.", differs: "keepalived lowers one that is too high; here it is an error."},
	{name: "quorum_up", kind: runKind, doc: "Command to run when the quorum is reached, at the start too. " + serviceCommands},
	{name: "quorum_down", kind: runKind, doc: "Command to run when it is lost."},
	{name: "omega", kind: boolKind, def: false, doc: "When vipd stops, notify_down of its live servers and quorum_down are run, as they always are when a reload takes a server or the service away."},
	{name: "sorry_server_inhibit", kind: boolKind, def: false, doc: "The sorry server stays in the table with weight 0 while it is not needed: its connections live on."},
	{name: "ha_suspend", kind: boolKind, def: false, doc: "Checks run only while the address of the service is on this host, on any interface; meanwhile servers are as they were when it went."},
	{name: "active_on", kind: choiceKind, words: []string{"always", "master"}, def: "always", doc: "\"master\": the service is in the kernel only while the vrrp_instance with its address is MASTER, from before the address comes until it is gone. For directors that are real servers of each other, which would send packets in circles. Checks always run."},
	{name: "active_instance", kind: textKind, min: 1, max: 255, defText: "the one with the address of the service", doc: "The vrrp_instance of active_on, which a fwmark needs."},
}, notifyServerKeys("")...)

// serviceCommands says how the commands of services run.
const serviceCommands = "The commands of one service and its servers run one after the other, each for at most 60 s, with VIPD_SERVICE, VIPD_STATE (UP or DOWN) and, for a server, VIPD_SERVER in their environment."

// notifyServerKeys are the commands of a real server.
func notifyServerKeys(from string) []*key {
	up := "Command to run when a server passes its checks again; of a new one only with alpha, for else it counts as up at once."
	if from == "" {
		up = "Default of notify_up of the real servers. keepalived has it there alone."
	}
	down := "Command to run when a server fails."
	if from == "" {
		down = "Default of notify_down of the real servers."
	}
	return []*key{
		{name: "notify_up", kind: runKind, defText: from, doc: up},
		{name: "notify_down", kind: runKind, defText: from, doc: down},
	}
}

// flushKeys are the keys of global_defs about services of others.
var flushKeys = []*key{
	{name: "lvs_flush", kind: boolKind, def: false, doc: "At the start every IPVS service that is not configured is deleted, whoever made it. Those that are configured are changed in place, so that connections live on.", differs: "keepalived empties the table, and with it all connections."},
	{name: "lvs_flush_on_stop", aliases: []string{"lvs_flush_onstop"}, kind: flushKind, def: "", defText: "`false`", doc: "At the stop every IPVS service is deleted, also what others have added. \"VS\" is accepted, and is what vipd does anyway: it deletes its own services as a whole."},
}
