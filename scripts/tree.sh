#!/bin/sh
# Fails if a tracked file has more than 1 MB, or if no test matches an alternative of the -run of a go test in a script,
# workflow or document.
set -euf
cd "$(dirname "$0")/.."

failed=0
large=$(git ls-files -z | xargs -0 wc -c | awk '$1 > 1048576 && $2 != "total"')
if [ -n "$large" ]; then
	printf 'tree: more than 1 MB:\n%s\n' "$large" >&2
	failed=1
fi

tests() { # below folders, or all
	git grep -hoE '^func (Test|Example|Benchmark|Fuzz)[A-Za-z0-9_]*' -- "${@:-*_test.go}" | sed 's/^func //'
}
alternatives() { # of a(b|c): ab and ac
	case $1 in
	*\(*) echo "${1#*(}" | tr -d ')' | tr '|' '\n' | sed "s/^/${1%%(*}/" ;;
	*) echo "$1" | tr '|' '\n' ;;
	esac
}
runs=$(git grep -nE -e '(go|GO\)?|TEST\)) (test )?.*-run[ =]' -- Makefile '*.md' '*.sh' '*.yml' .ci)
while read -r line; do
	after=${line##*-run?} # make's $$, and a subtest, are cut off
	pattern=$(echo "$after" | sed -E "s/^['\"]?([^ '\"\`/]*).*/\1/; s/\\$\\$/$/g")
	folders=$(echo "$after" | grep -oE ' \./[A-Za-z0-9_/]+' | sed 's/^ .\///; s/\/*$/\/*_test.go/' || true)
	[ "$pattern" != '^$' ] || continue
	for one in $(alternatives "$pattern"); do
		# shellcheck disable=SC2086 # one word a folder
		tests $folders | grep -qE -- "$one" || {
			echo "tree: no test matches -run $one: $line" >&2
			failed=1
		}
	done
done <<EOF
$runs
EOF
exit $failed
