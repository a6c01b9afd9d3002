#!/bin/sh
# Fails if a tracked file has more than 1 MB, or if no test matches the -run of a go test in a script, workflow or document.
set -eu
cd "$(dirname "$0")/.."

failed=0
large=$(git ls-files -z | xargs -0 wc -c | awk '$1 > 1048576 && $2 != "total"')
if [ -n "$large" ]; then
	printf 'tree: more than 1 MB:\n%s\n' "$large" >&2
	failed=1
fi

tests() { # of a folder, or of all
	git grep -hoE '^func (Test|Example|Benchmark|Fuzz)[A-Za-z0-9_]*' -- "$1*_test.go" | sed 's/^func //'
}
runs=$(git grep -nE -e '(go|GO\)?|TEST\)) (test )?.*-run[ =]' -- Makefile '*.md' '*.sh' '*.yml' .ci)
while read -r line; do
	after=${line##*-run?} # make's $$, and a subtest, are cut off
	pattern=$(echo "$after" | sed -E "s/^['\"]?([^ '\"\`/]*).*/\1/; s/\\$\\$/$/g")
	folder=$(echo "$after" | sed -nE 's/.* \.\/([A-Za-z0-9_/]+).*/\1\//p')
	[ "$pattern" = '^$' ] || tests "$folder" | grep -qE -- "$pattern" || {
		echo "tree: no test of ${folder:-any package} matches -run $pattern: ${line%%-run*}" >&2
		failed=1
	}
done <<EOF
$runs
EOF
exit $failed
