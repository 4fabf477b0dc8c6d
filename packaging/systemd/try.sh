#!/bin/bash
# Runs the unit under a real systemd and checks what it promises: start, reload,
# refused reload, crash, stop, a bad configuration, commands within its limits.
# systemd runs inside the user-mode kernel, so nothing of this machine is touched.
# Needs root, Go, and Debian's systemd and user-mode-linux.
set -u
here=$(dirname "$(readlink -f "$0")")

fail() { echo "FAIL: $*"; failed=1; }
failed=0

outside() {
	[ -x /lib/systemd/systemd ] || { echo "systemd is missing: apt-get install systemd"; exit 1; }
	cd "$here/../.." || exit 1
	dir=$(mktemp -d /tmp/vipd-unit-XXXXXX) || exit 1
	trap 'rm -rf "$dir"' EXIT
	CGO_ENABLED=0 go build -trimpath -o "$dir/vipd" ./cmd/vipd || exit 1
	cp "$here/vipd.service" "$here/try.sh" "$dir" || exit 1
	go run ./test/cmd/uml -mod ip_vs_rr -share "$dir" -t 5m -- /bin/bash "$dir/try.sh" guest
	exit
}

# guest prepares the machine in the user-mode kernel and starts systemd in it.
guest() {
	mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit 1
	mkdir /tmp/etc && cp -a /etc/. /tmp/etc/ 2>/dev/null
	mount --bind /tmp/etc /etc && mount -t tmpfs tmpfs /usr/local/sbin || exit 1
	rm -rf /etc/systemd/system/* && : >/etc/fstab
	echo 11111111111111111111111111111111 >/etc/machine-id
	mkdir -p /etc/systemd/system/vipd.service.d /etc/vipd
	cp "$here/vipd" /usr/local/sbin/ && cp "$here/vipd.service" /etc/systemd/system/ || exit 1
	# The test starts no other unit: the rest of this machine is not there.
	printf '[Unit]\nDefaultDependencies=no\n' >/etc/systemd/system/vipd.service.d/test.conf
	cat >/etc/systemd/system/try.service <<-EOF
		[Unit]
		DefaultDependencies=no
		Wants=systemd-journald.socket
		After=systemd-journald.socket
		[Service]
		Type=oneshot
		StandardOutput=file:$here/out
		StandardError=inherit
		ExecStart=/bin/bash $here/try.sh test
		ExecStopPost=/bin/touch $here/finished
	EOF
	printf '[Unit]\nDefaultDependencies=no\nWants=try.service\n' >/etc/systemd/system/try.target
	ip link add eth0 type veth peer name peer0
	ip addr add 192.0.2.11/24 dev eth0 && ip link set eth0 up && ip link set peer0 up
	cat >/etc/vipd/vipd.toml <<-EOF
		[global_defs]
		vrrp_notify_fifo = "/run/events nobody"
		lvs_sync_daemon = "eth0 WEB"
		sync_delay = 0
		[ipvs_sysctl]
		expire_nodest_conn = 1
		[vrrp_script.who]
		script = ["/bin/sh", "-c", 'test \$(id -u) = 65534 || exec sleep 30']
		user = "nobody"
		[vrrp_script.hangs]
		script = "/bin/sleep 31"
		user = "nobody"
		weight = 1
		[vrrp_instance.WEB]
		track_script = ["who", "hangs"]
		interface = "eth0"
		virtual_router_id = 51
		version = 3
		advert_int = 0.1
		virtual_ipaddress = ["192.0.2.100"]
		notify = "/bin/sh /etc/vipd/notify"
		[[virtual_server]]
		address = "192.0.2.100:80"
		lvs_sched = "rr"
		lvs_method = "DR"
		real_server = [{ address = "192.0.2.21:80" }]
		TCP_CHECK = {}
		[[virtual_server]]
		address = "192.0.2.100:81"
		lvs_sched = "rr"
		lvs_method = "DR"
		alpha = true
		delay_loop = 1
		[[virtual_server.real_server]]
		address = "192.0.2.21:81"
		MISC_CHECK = { misc_path = ["/bin/sh", "-c", 'test \$(id -u) = 65534'], user = "nobody" }
		[[virtual_server.real_server]]
		address = "192.0.2.11:81"
		PING_CHECK = {}
	EOF
	echo 'ping -c1 -W1 127.0.0.1 >/dev/null; echo "$* ping $?" >>/run/notified' >/etc/vipd/notify
	export container=try
	unshare --pid --fork --mount --mount-proc --cgroup /lib/systemd/systemd --system --unit=try.target \
		--log-target=console --show-status=no >/tmp/systemd.log 2>&1 &
	for _ in $(seq 400); do
		[ -e "$here/finished" ] && break
		sleep 0.5
	done
	cat "$here/out"
	[ -e "$here/finished" ] || { echo "FAIL: systemd did not get through; its log:"; cat /tmp/systemd.log; exit 1; }
	! grep -q '^FAIL' "$here/out"
	exit
}

show() { systemctl show vipd -p "$1" --value; }

# wants CONDITION-TEXT COMMAND…: the command must succeed within 5 s.
wants() {
	local text=$1
	shift
	for _ in $(seq 50); do
		if "$@" >/dev/null 2>&1; then
			echo "ok    $text"
			return
		fi
		sleep 0.1
	done
	fail "$text ($*)"
}

has_vip() { ip addr show eth0 | grep -q 192.0.2.100/32; }
no_vip() { ! has_vip; }
service() { ipvsadm -Ln | grep -q 192.0.2.100:80; }
no_service() { ! service; }
server() { ipvsadm -Ln | grep -q -- "-> $1 "; }
no_server() { ! server "$1"; }
sync_daemon() { ipvsadm -Ln --daemon | grep -q 'master sync daemon'; }
no_sync_daemon() { ! sync_daemon; }
setting() { [ "$(cat /proc/sys/net/ipv4/vs/expire_nodest_conn)" = "$1" ]; }
same_pid() { [ "$(show MainPID)" = "$pid" ]; }
other_pid() { [ "$(show MainPID)" != "$pid" ] && [ "$(show SubState)" = running ]; }
journal() { journalctl -u vipd -o cat --no-pager | grep -q "$1"; }

inside() {
	systemctl start vipd || fail "start"
	wants "start: running when systemctl returns" systemctl is-active vipd
	wants "start: takes the address" has_vip
	wants "start: makes the IPVS service" service
	pid=$(show MainPID)
	wants "limits: NET_BIND_SERVICE, NET_ADMIN, NET_RAW, SETUID, SETGID, KILL, CHOWN, SYS_NICE, IPC_LOCK only" \
		grep -qE '^CapEff:\s+00000000008074e1$' "/proc/$pid/status"
	wants "balance: a setting of IPVS is made" setting 1
	wants "balance: the sync daemon runs" sync_daemon
	wants "balance: a server is checked by a program of another user" server 192.0.2.21:81
	wants "balance: a server is checked by ping" server 192.0.2.11:81
	vipd drain 192.0.2.21:81 >/dev/null || fail "drain"
	wants "balance: a server is drained" no_server 192.0.2.21:81
	wants "user: the FIFO belongs to its reader" test "$(stat -c %U /run/events)" = nobody
	sleep 4
	wants "user: a script that hangs is killed" test "$(pgrep -c -f '^/bin/sleep 31')" -le 2
	wants "notify: a command runs, and may ping" grep -q 'INSTANCE WEB MASTER 100 ping 0' /run/notified

	systemctl reload vipd || fail "reload"
	wants "reload: done, same process" same_pid
	wants "reload: in the journal" journal 'nothing changed'
	sed -i 's/advert_int/advert_itn/' /etc/vipd/vipd.toml
	systemctl reload vipd 2>/dev/null && fail "reload with an error must fail"
	wants "bad reload: refused, vipd runs on" same_pid
	wants "bad reload: still has the address" has_vip
	wants "bad reload: the journal names the mistake" journal 'unknown key "advert_itn"'
	sed -i 's/advert_itn/advert_int/' /etc/vipd/vipd.toml

	kill -9 "$pid"
	wants "crash: started again" other_pid
	wants "crash: the address of before was recognised" journal 'an earlier vipd added it'
	wants "crash: has the address again" has_vip
	wants "crash: the service is still there" service
	wants "crash: the server is still drained" no_server 192.0.2.21:81
	wants "crash: the sync daemon runs" sync_daemon

	systemctl stop vipd || fail "stop"
	wants "stop: gives the address up" no_vip
	wants "stop: removes the service" no_service
	wants "stop: gives the setting of IPVS back" setting 0
	wants "stop: ends the sync daemon" no_sync_daemon
	wants "stop: told to notify" grep -q 'INSTANCE WEB STOP' /run/notified
	wants "stop: the record in /run/vipd stays" test -e /run/vipd/addresses.json

	sed -i 's/advert_int/advert_itn/' /etc/vipd/vipd.toml
	systemctl start vipd 2>/dev/null && fail "start with a bad configuration must fail"
	sleep 1
	wants "bad configuration: exit status 2, not started again" test "$(show ExecMainStatus) $(show NRestarts) $(show SubState)" = "2 0 failed"
	sed -i 's/advert_itn/advert_int/' /etc/vipd/vipd.toml
	namespace
	[ $failed = 0 ] || journalctl -u vipd -o cat --no-pager
}

front_vip() { ip -n front addr show eth0 | grep -q 192.0.2.100/32; }
no_front_vip() { ! front_vip; }
in_front() { [ "$(stat -Lc %i "/proc/$(show MainPID)/ns/net")" = "$(stat -Lc %i /run/netns/front)" ]; }

# dropin LINE…: the unit with these lines as its only changes.
dropin() {
	printf '[Service]\n' >/etc/systemd/system/vipd.service.d/front.conf
	printf '%s\n' "$@" >>/etc/systemd/system/vipd.service.d/front.conf
	systemctl daemon-reload
	systemctl reset-failed vipd
}

# namespace is the unit of a daemon with net_namespace, as docs/operating.md has it.
namespace() {
	systemctl stop vipd
	ip netns add front && ip link set eth0 netns front && ip -n front addr add 192.0.2.11/24 dev eth0 &&
		ip -n front link set eth0 up && ip -n front link set lo up || fail "making a namespace"
	sed -i '1i net_namespace = "front"' /etc/vipd/vipd.toml
	dropin 'ExecReload=' 'ExecReload=/usr/local/sbin/vipd reload --instance front' RuntimeDirectory=vipd-front CapabilityBoundingSet=CAP_SYS_ADMIN
	systemctl start vipd || fail "start in a namespace"
	wants "namespace: running when systemctl returns, the process that was started" systemctl is-active vipd
	wants "namespace: it is in it" in_front
	wants "namespace: takes the address there" front_vip
	pid=$(show MainPID)
	systemctl reload vipd || fail "reload in a namespace"
	wants "namespace: reload done, same process" same_pid
	kill -9 "$pid"
	wants "namespace: started again after a crash" other_pid
	wants "namespace: in it again" in_front
	systemctl stop vipd || fail "stop in a namespace"
	wants "namespace: gives the address up" no_front_vip
	dropin
	systemctl start vipd 2>/dev/null && fail "start without CAP_SYS_ADMIN must fail"
	wants "namespace: without CAP_SYS_ADMIN the journal says what to do" journal 'it takes CAP_SYS_ADMIN; run as root, and under systemd add'
	systemctl stop vipd
	dropin NetworkNamespacePath=/run/netns/front
	systemctl start vipd || fail "start in a namespace that systemd has entered"
	wants "namespace: without CAP_SYS_ADMIN when systemd enters it" front_vip
	systemctl stop vipd
	wants "namespace: gives the address up again" no_front_vip
}

case ${1:-} in
guest) guest ;;
test) inside ;;
*) outside ;;
esac
