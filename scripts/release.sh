#!/bin/sh
# Prepares a release: one version for all modules of go.work, and a tag for each that is imported.
#
#	scripts/release.sh v0.1.0          say what would be done, and check that it can be
#	scripts/release.sh v0.1.0 commit   set the version in every go.mod, and commit
#	scripts/release.sh v0.1.0 tag      tag that commit, after review: v0.1.0, tracing/v0.1.0 ...
#
# It pushes nothing. A replace stays where it is: whoever requires a module does not see it. But go install refuses a
# program whose module has one, so the command is without it in the commit that is tagged, and only there.
set -eu
cd "$(dirname "$0")/.."
: "${GO:=go}"

version=${1-} step=${2-look}
root=github.com/redlatch/redlatch

die() {
	echo "release: $*" >&2
	exit 1
}

printf '%s' "$version" | grep -Eq '^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.]+)?$' ||
	die "the version is vX.Y.Z, not '$version'"
case $version in
v0.* | v1.*) ;;
*) die "$version: from v2 on the import paths end with /v2, which is more than a release" ;;
esac
case $step in
look | commit | tag) ;;
*) die "the step is commit or tag, not '$step'" ;;
esac
[ -z "$(git status --porcelain)" ] || die "the tree is not clean"

modules=$(GOWORK=$PWD/go.work $GO list -m -f '{{.Path}}')

# Users do not import these: they are tests and programs. They get the version, but no tag.
untagged="$root/bench $root/examples $root/guard/inspect/guardweb/browser
	$root/guardsql/internal/dbtest $root/internal/stack $root/middleware/frameworks"

tags=
for module in $modules; do
	case " $(echo $untagged) " in
	*" $module "*) continue ;;
	esac
	dir=${module#"$root"}
	dir=${dir#/}
	tags="$tags ${dir:+$dir/}$version"
done
for tag in $tags; do
	! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || die "there is a tag $tag already"
done

grep -q "^const Number = \"${version#v}\"\$" internal/version/version.go || die "internal/version is not ${version#v}"
grep -q "${version#v}" CHANGELOG.md || [ "$step" = look ] || die "CHANGELOG.md does not name ${version#v}"

# requirements prints "file module version" for what modules require of each other.
requirements() {
	for module in $modules; do
		file=.${module#"$root"}/go.mod
		awk -v file="$file" -v root="$root" '
			$1 == "replace" { exit }
			$1 == "require" { $1 = ""; $0 = $0 }
			$1 == root || index($1, root "/") == 1 { print file, $1, $2 }' "$file"
	done
}

tidy() {
	GOWORK=off ./scripts/each.sh "$GO" mod tidy -diff || die "run make tidy"
}

program=cmd/redlatch

# requireRoot writes the root module of this commit into go.mod and go.sum of the program, as if it were tagged and
# pushed: go gets it from a copy of this repository, and keeps nothing of it.
requireRoot() {
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	git clone -q --bare . "$tmp/copy.git"
	git -C "$tmp/copy.git" tag "$version" HEAD
	# No checksum database knows the tag yet. What was downloaded before is not asked for again.
	downloaded=file://$($GO env GOMODCACHE)/cache/download
	(
		cd $program
		export GOWORK=off GOFLAGS=-modcacherw GOMODCACHE="$tmp/mod" GOPRIVATE="$root"
		GOPROXY=$downloaded,$($GO env GOPROXY)
		export GOPROXY GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$tmp/copy.git.insteadOf" GIT_CONFIG_VALUE_0="https://$root"
		$GO mod edit -dropreplace="$root"
		$GO mod tidy
	)
}

case $step in
look)
	tidy
	requirements | awk -v to="$version" '$3 != to { print "set ", $1 ": " $2, $3, "to", to }'
	for tag in $tags; do echo "tag  $tag"; done
	;;
commit)
	tidy
	requirements | while read -r file module _; do
		$GO mod edit -require="$module@$version" "$file"
	done
	tidy
	git commit -qam "modules: require $version of each other"
	requireRoot
	git commit -qa --amend --no-edit
	echo "committed; look at it, then run: $0 $version tag"
	;;
tag)
	wrong=$(requirements | awk -v is="$version" '$3 != is')
	[ -z "$wrong" ] || die "run '$0 $version commit' first: $wrong"
	for tag in $tags; do git tag -a -m "$tag" "$tag"; done
	for tag in $tags; do
		[ "$(git rev-parse "$tag^{commit}")" = "$(git rev-parse HEAD)" ] || die "$tag is not on this commit"
	done
	(cd $program && $GO mod edit -replace="$root=../.." && GOWORK=off $GO mod tidy)
	git commit -qam "$program: use the root module of this tree again"
	echo "tagged; git push origin main$(printf ' %s' $tags)"
	;;
esac
