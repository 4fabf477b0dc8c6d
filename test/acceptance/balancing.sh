#!/bin/bash
# Services in the user-mode kernel: shares of 10,000 connections under rr, wrr, wlc and sed and persistence, by DR, NAT and
# TUN (ipip, gue, gre), IPv4 and IPv6; tunnels across families; one-packet scheduling; groups; every attribute in place.
source "$(dirname "$0")/run.sh"
export VIPD_LONG=1
measure ./test/kernel "^Test(Services|O49OnePacket|ServerGroup|ReloadInPlace)$"
