#!/bin/sh
# Runs a command in each module of go.work. Where it fails does not keep it from the others.
#
#	GOWORK=off scripts/each.sh go mod tidy -diff
set -eu
cd "$(dirname "$0")/.."

failed=
# Without a go.work there is one module only, so its list is asked for with it.
for dir in $(GOWORK=$PWD/go.work ${GO:-go} list -m -f '{{.Dir}}'); do
	(cd "$dir" && "$@") || failed="$failed $dir"
done
[ -z "$failed" ] || {
	echo "each: '$*' failed in:$failed" >&2
	exit 1
}
