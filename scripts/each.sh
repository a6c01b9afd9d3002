#!/bin/sh
# Runs a command in each module of go.work, in several at a time. Where it fails does not keep it from the others.
#
#	GOWORK=off scripts/each.sh go mod tidy -diff
set -eu
cd "$(dirname "$0")/.."

# Without a go.work there is one module only, so its list is asked for with it.
GOWORK=$PWD/go.work ${GO:-go} list -m -f '{{.Dir}}' | xargs -P 4 -I{} sh -c '
	cd "$1" && shift
	said=$("$@" 2>&1) && failed=0 || failed=1
	[ -z "$said" ] || printf "%s\n" "$said"
	[ $failed = 0 ] || echo "each: $* failed in $PWD" >&2
	exit $failed' each {} "$@"
