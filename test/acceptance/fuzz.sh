#!/bin/bash
# The fuzz targets of packet decoder, configuration and HTTP reply, two minutes each.
source "$(dirname "$0")/run.sh"
make fuzz FUZZTIME=${FUZZTIME:-2m}
