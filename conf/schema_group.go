package conf

// groupBlock is [vrrp_sync_group.NAME].
var groupBlock = &block{
	name:   "vrrp_sync_group",
	header: "[vrrp_sync_group.NAME]",
	named:  true,
	doc: "Instances that change state together: all of them are MASTER, or none. A fault of one is a fault of all. " +
		"One is taken over only when all may be, and one that gives way makes all give way. " +
		"They share their trackers: what one of them tracks, or the group, counts for each of them once, weights too.",
	keys: []*key{
		{name: "group", kind: namesKind, need: true, doc: "The members: names of vrrp_instance tables. An instance is in one group at most. The groups of a vip_spread can be members, too."},
		{name: "track_interface", kind: tracksKind, min: -253, max: 253, doc: "As in vrrp_instance, for all members."},
		{name: "track_script", kind: tracksKind, min: -253, max: 253, doc: "As in vrrp_instance, for all members."},
		{name: "track_file", kind: tracksKind, min: -254, max: 254, doc: "As in vrrp_instance, for all members."},
		{name: "track_process", kind: tracksKind, min: -254, max: 254, doc: "As in vrrp_instance, for all members."},
		{name: "notify", kind: runKind, doc: "Command to run when the group changes its state, after the one for that state. It gets four more arguments: GROUP, the name, MASTER, BACKUP, FAULT, STOP or DELETED, and 0. The group is MASTER when all members are. As in vrrp_instance, this and the following may name who runs it."},
		{name: "notify_master", kind: runKind, doc: "Command to run when all members have become MASTER."},
		{name: "notify_backup", kind: runKind, doc: "Command to run when the group becomes BACKUP."},
		{name: "notify_fault", kind: runKind, doc: "Command to run when the group enters FAULT."},
		{name: "notify_stop", kind: runKind, doc: "Command to run when vipd stops."},
		{name: "notify_deleted", kind: deletedKind, doc: "Command to run when a reload removes the group; notify and the FIFOs then say DELETED. true: they do, without a command."},
		{name: "smtp_alert", kind: boolKind, defText: "smtp_alert_vrrp, else smtp_alert of global_defs, else false", doc: "Mail every change of the group's state."},
	},
}
