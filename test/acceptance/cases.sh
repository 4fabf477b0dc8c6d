#!/bin/bash
# The public failure reports, as tests named after them (long forms).
source "$(dirname "$0")/run.sh"
export VIPD_LONG=1
VIPD_PARALLEL=2 measure ./test/cases "^TestO[0-9]"
measure ./test/kernel "^TestO[0-9]"
measure ./test/recreate "^TestO[0-9]"
go test -count=1 -v -run "^TestO[0-9]" ./healthcheck/... ./ipvs/... ./garp/... ./vrrp/... ./cmd/... | grep -E "^(---|ok|FAIL)"
