#!/bin/bash
# One file for every director: the rules of the plan for 2-16 directors and 1-200
# addresses, and four directors that die in turn.
source "$(dirname "$0")/run.sh"
VIPD_LONG=1 go test -count=1 -v ./conf/spread ./cmd/internal/spread | grep -E "^(---|ok|FAIL)"
go test -count=1 -v -run Spread ./conf | grep -E "^(---|ok|FAIL)"
measure ./test/cases "^TestSpread"
