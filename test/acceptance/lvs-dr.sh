#!/bin/bash
# LVS-DR in the user-mode kernel: shares of rr and wrr, a dead server, a dead director.
source "$(dirname "$0")/run.sh"
measure ./test/kernel "^TestDR"
