# Sourced by the scripts of this folder: goes to the top of the tree, installs
# what is missing, builds, and defines measure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
test/setup.sh
make --no-print-directory build
export VIPD_BIN="$PWD/bin/vipd"

# measure PACKAGE TESTS: runs the tests one after the other, judged by the exact
# figures of the claim, and prints the measured lines and the verdicts.
measure() {
	VIPD_EXACT=1 go test -count=1 -parallel "${VIPD_PARALLEL:-1}" -timeout 60m -v -run "$2" "$1" |
		grep --line-buffered -vE '^(=== |\s+lab\.go)'
}
