#!/bin/sh
# Runs every fuzz target in turn: go test takes one at a time.
set -eu
cd "$(dirname "$0")/.."

: "${GO:=go}" "${FUZZTIME:=30s}"

# Names come first, then the package they were found in. "work" is all modules of go.work.
listed=$($GO test -list '^Fuzz' work)
targets=$(echo "$listed" | awk '
	/^Fuzz/ { names[n++] = $1 }
	/^ok/   { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }')
if [ -z "$targets" ]; then
	echo "fuzz: no fuzz target found" >&2
	exit 1
fi
echo "$targets" | while read -r pkg name; do
	echo "== $name ($pkg) for $FUZZTIME"
	$GO test -run '^$' -fuzz "^$name\$" -fuzztime "$FUZZTIME" "$pkg" </dev/null
done
