#!/bin/bash
# Two directors on a learning bridge, the master's link cut: 10 trials each at
# version 2 with 1 s, version 3 with 0.1 s and 0.01 s; keepalived beside it.
source "$(dirname "$0")/run.sh"
VIPD_TRIALS=${VIPD_TRIALS:-10} measure ./test/acceptance "^TestFailover$"
