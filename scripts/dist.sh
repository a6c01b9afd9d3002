#!/bin/sh
# Makes the files of a release in dist: the command for each platform with completion and manual pages, a bill
# of materials, checksums. The tree is at the tags, and they are pushed: Go reads the version of the
# command from its tag, and gets the root module as go install does.
#
#	scripts/dist.sh v0.1.0
set -eu
cd "$(dirname "$0")/.."
: "${GO:=go}"
version=${1-}

die() {
	echo "dist: $*" >&2
	exit 1
}

[ "$version" = "v$(sed -n 's/^const Number = "\(.*\)"$/\1/p' internal/version/version.go)" ] ||
	die "internal/version is not '$version'"
rm -rf dist
mkdir dist
export CGO_ENABLED=0 GOWORK=off
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) # of the manual pages
export SOURCE_DATE_EPOCH
build() { (cd cmd/redlatch && $GO build -buildvcs=true -trimpath -ldflags=-s -o "../../$1" .); }

# What the program writes about itself is the same on all platforms.
about=dist/about
mkdir -p $about/man $about/completion
build $about/redlatch
$about/redlatch man $about/man
for shell in bash zsh fish; do $about/redlatch completion $shell >$about/completion/redlatch.$shell; done
rm $about/redlatch

for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	os=${platform%/*} arch=${platform#*/}
	dir=dist/redlatch_${version}_${os}_$arch
	cp -R $about "$dir"
	GOOS=$os GOARCH=$arch build "$dir/redlatch"
	cp LICENSE docs/reference/command.md "$dir"
	# The same commit gives the same bytes, whoever packs it.
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		-C dist -cf - "${dir#dist/}" | gzip -n >"$dir.tar.gz"
	rm -r "$dir"
done
rm -r $about
$GO run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 app -json -licenses \
	-output "dist/redlatch_$version.cdx.json" cmd/redlatch
(cd dist && sha256sum -- * >checksums.txt)
