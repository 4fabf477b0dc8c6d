#!/bin/bash
# A server dies and returns under a load of HTTP requests, before vipd and before keepalived. Writes docs/failover.md.
source "$(dirname "$0")/run.sh"
chrt -r -p 1 $$ # ahead of other jobs of the machine, for requests and checks are late together with them
export VIPD_FAILOVER_DOC=${VIPD_FAILOVER_DOC:-$PWD/docs/failover.md}
VIPD_LOAD=$(cut -d' ' -f1-3 /proc/loadavg)
export VIPD_LOAD
# The guest may write only where the flags of the test say so.
go test -count=1 -timeout 60m -v -outputdir "$(dirname "$VIPD_FAILOVER_DOC")" -run '^TestFailoverHTTP$' ./test/kernel |
	grep --line-buffered -vE '^(=== |\s+lab\.go)'
