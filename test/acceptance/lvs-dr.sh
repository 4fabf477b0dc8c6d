#!/bin/bash
# LVS-DR in the user-mode kernel: shares of rr and wrr, a dead server, a dead director.
source "$(dirname "$0")/run.sh"
export VIPD_LONG=1
measure ./test/kernel "^TestDR"
