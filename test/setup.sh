#!/bin/sh
# Installs what the tests and the demo need and this machine lacks (Debian).
# Changes nothing when all is there.
set -eu

fail() {
	echo "setup: $*" >&2
	exit 1
}

command -v go >/dev/null 2>&1 || fail "Go is missing; install a current one from https://go.dev/dl/ and put it on PATH"
[ "$(id -u)" = 0 ] || fail "the tests make network namespaces and need root; run this as root"

# program:package
wanted="ip:iproute2 bridge:iproute2 tc:iproute2 nft:nftables ping:iputils-ping arping:iputils-arping
modprobe:kmod keepalived:keepalived ipvsadm:ipvsadm tcpdump:tcpdump strace:strace linux.uml:user-mode-linux iptables-legacy:iptables
cc:gcc setsid:util-linux git:git"

PATH=$PATH:/usr/sbin:/sbin
packages=""
missing() {
	packages=""
	for pair in $wanted; do
		command -v "${pair%%:*}" >/dev/null 2>&1 || packages="$packages ${pair##*:}"
	done
	# gcc alone cannot build: it needs the C library's headers.
	[ -e /usr/include/stdio.h ] || packages="$packages libc6-dev"
	packages=$(printf '%s\n' $packages | sort -u | tr '\n' ' ')
}

missing
if [ -n "${packages%% }" ]; then
	command -v apt-get >/dev/null 2>&1 || fail "missing: $packages; there is no apt-get here, install them by hand"
	echo "setup: installing $packages"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq || fail "apt-get update failed; check this machine's package sources"
	# shellcheck disable=SC2086 # a list of words
	apt-get install -y -qq --no-install-recommends $packages >/dev/null ||
		fail "apt-get could not install: $packages"
	missing
	[ -z "${packages%% }" ] || fail "still missing after the installation: $packages"
fi

# The user-mode kernel mounts its modules there; its root is read-only.
mkdir -p /lib/modules
