#!/bin/bash
# A pair of vipd and keepalived in both roles: v2, v2 with PASS, v3; IPv4 and IPv6.
source "$(dirname "$0")/run.sh"
VIPD_PARALLEL=2 measure ./test/acceptance "^TestInteropWithKeepalived$"
