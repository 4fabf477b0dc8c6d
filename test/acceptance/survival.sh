#!/bin/bash
# Connections when a director dies, comes back empty or is stopped: with the sync daemon, survive = "mh", resets held back.
source "$(dirname "$0")/run.sh"
measure ./test/kernel "^Test(O47|O48|SurviveMH|ShieldedStop)"
