package conf

// What lines of addresses, routes and rules look like, for the reference.
const (
	addressLine = "\"ADDRESS[/LENGTH] [dev IF] [label NAME] [scope global|link|site|host|nowhere|0..255] [brd ADDRESS|+|-] [peer ADDRESS[/LENGTH]] [noprefixroute] [preferred_lft SECONDS|forever] [home] [-nodad] [mngtmpaddr] [autojoin]"
	routeLines  = "\"[TYPE] [to] NETWORK|default [via [inet6] ADDRESS] [or ADDRESS] [dev IF] [onlink] [table T] [vrf NAME] [metric N] [src ADDRESS] [tos T] [scope S] [protocol P] [append|prepend|add] [mtu [lock] N] [advmss N] [window N] [initcwnd N] … [nexthop via ADDRESS dev IF weight N onlink] …"
	ruleLines   = "\"[not] [from NETWORK] [to NETWORK] [iif IF] [oif IF] [tos T] [fwmark N/MASK] [ipproto P] [sport N-M] [dport N-M] [uidrange N-M] table T|l3mdev|goto N|blackhole|unreachable|prohibit [suppress_prefixlength N] [priority N] [protocol P]"
)

// trackGroupBlock is [track_group.NAME].
var trackGroupBlock = &block{
	name:   "track_group",
	header: "[track_group.NAME]",
	named:  true,
	doc:    "Instances that are in FAULT while a static address, route or rule that names the group is missing and cannot be put back.",
	keys: []*key{
		{name: "group", kind: namesKind, need: true, doc: "The members: names of vrrp_instance tables. The groups of a vip_spread can be members, too."},
	},
}

// staticKeys are the keys of the file that concern objects which every state has.
var staticKeys = []*key{
	{name: "static_ipaddress", kind: staticVIPsKind, doc: "Addresses of this machine that vipd keeps there whatever the state of instances: " + addressLine + " [track_group NAME]\", or a table { address = \"…\", dev = \"…\", … }. Without dev they go to default_interface. They are put back when removed, and removed when vipd stops or a reload takes them out."},
	{name: "static_routes", kind: routesKind, doc: "Routes that vipd keeps whatever the state of instances: " + routeLines + " [track_group NAME]\", or a table { to = \"…\", via = \"…\", nexthop = [\"…\"], … }. As virtual_routes otherwise."},
	{name: "static_rules", kind: rulesKind, doc: "Rules of the routing policy that vipd keeps whatever the state of instances: " + ruleLines + " [track_group NAME]\", or a table { from = \"…\", table = \"…\", … }. As virtual_rules otherwise."},
	{name: "track_group", kind: namedKind, block: trackGroupBlock, doc: "Instances that need static objects."},
}

// movedKeys are the keys of an instance that concern what moves with its addresses.
var movedKeys = []*key{
	{name: "virtual_routes", kind: routesKind, doc: "Routes that are there only while MASTER, as `ip route` writes them: " + routeLines + " [no_track]\", or a table { to = \"…\", via = \"…\", nexthop = [\"…\"], … }. TYPE is unicast, local, blackhole, unreachable, prohibit or throw. Names of tables and protocols are those of /etc/iproute2; tos is hexadecimal as for ip. They come after the addresses and go before them, and are put back when somebody, or the kernel with a link or address, takes them away; with no_track they are not. An equal route of others stays and comes second; append: first; add: ours is then an error. Other than with keepalived, a route without a gateway has scope link as `ip route` gives it."},
	{name: "virtual_rules", kind: rulesKind, doc: "Rules of the routing policy that are there only while MASTER, as `ip rule` writes them: " + ruleLines + " [no_track]\", or a table { from = \"…\", table = \"…\", … }. Without from, to or inet6 a rule is for IPv4. Without priority they get 16384 and below in the order of the file, static ones first."},
	{name: "promote_secondaries", kind: boolKind, def: false, doc: "Set net.ipv4.conf.IF.promote_secondaries of the interface: when the first address of a subnet goes, the others stay. The old value comes back when vipd stops, or at its next start after a crash."},
}
