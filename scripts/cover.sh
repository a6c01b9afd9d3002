#!/bin/sh
# Prints how much of each package the tests run: those of guard, of guardsql, of the adapters and of
# tracing, each counted for all of them, as adapters share much of their code.
set -eu
cd "$(dirname "$0")/.."
GO=${GO:-go}

module=github.com/redlatch/redlatch
packages=$($GO list ./guard ./guard/guardstore ./guard/guardtest ./guard/internal/... $module/guardsql/... $module/middleware/... ./tracing |
	grep -v -e /adaptertest -e /tasktest -e /frameworks -e /testenv -e /internal/model -e /stockdb)
profile=$(mktemp) log=$(mktemp)
trap 'rm -f "$profile" "$log"' EXIT

# shellcheck disable=SC2086 # one word a package
$GO test -count=1 -parallel 8 -timeout 15m -coverprofile="$profile" \
	-coverpkg="$(echo $packages | tr ' ' ,)" $packages >"$log" 2>&1 || {
	cat "$log" >&2
	exit 1
}

# A block stands in the profile once for each package whose tests could have run it:
# file:from,to statements count
awk '
	NR > 1 {
		size[$1] = $2
		if ($3 > 0) run[$1] = 1
	}
	END {
		for (block in size) {
			package = block
			sub(/\/[^\/]*$/, "", package)
			all[package] += size[block]
			if (block in run) covered[package] += size[block]
		}
		for (package in all) printf "%5.1f %%  %s\n", 100 * covered[package] / all[package], package
	}
' "$profile" | sort -k 3
