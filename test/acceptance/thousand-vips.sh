#!/bin/bash
# 1,000 addresses in one takeover at version 3, 0.1 s.
source "$(dirname "$0")/run.sh"
VIPD_TRIALS=${VIPD_TRIALS:-10} measure ./test/acceptance "^TestThousandVIPs$"
