#!/bin/bash
# 50,000 packets a second of each kind of bad advert at a pair, one kind after the other.
source "$(dirname "$0")/run.sh"
measure ./test/acceptance "^TestFloods$"
