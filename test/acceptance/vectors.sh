#!/bin/bash
# Frames captured from keepalived: decoded to their stated values, produced byte for byte,
# altered ones refused with the right reason.
source "$(dirname "$0")/run.sh"
go test -count=1 -v -run "Vector|Reference|Captur|Bad|Golden" ./vrrp/packet/... ./vrrp/socket ./garp/... | grep -E "^ *(---|ok|FAIL)"
