#!/bin/bash
# Services in the user-mode kernel: tunnels of both families and across them, one-packet scheduling, groups, every attribute
# changed in place; then, in each way and family, the shares of 10,000 connections under rr, wrr, wlc and sed, and persistence.
source "$(dirname "$0")/run.sh"
measure ./test/kernel "^Test(Services|O49OnePacket|ServerGroup|ReloadInPlace)$"
export VIPD_CONNECTIONS=${VIPD_CONNECTIONS:-10000}
for way in DR NAT TUN TUN_type_gue_port_6080 TUN_type_gre; do
	for family in false true; do
		measure ./test/kernel "^TestServices$/_by_$way,_IPv6_$family"
	done
done
