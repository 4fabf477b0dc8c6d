#!/bin/bash
# 60 reloads, one a second, that add or remove an unrelated address and real server.
source "$(dirname "$0")/run.sh"
VIPD_TRIALS=${VIPD_TRIALS:-60} measure ./test/acceptance "^TestReloads$"
