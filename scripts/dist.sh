#!/bin/sh
# Makes the files of a release in dist: the command for each platform, a bill of materials, checksums.
# The tree is that of the tag: Go reads the version of the command from there.
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
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
	os=${platform%/*} arch=${platform#*/}
	dir=dist/redlatch_${version}_${os}_$arch
	mkdir "$dir"
	GOOS=$os GOARCH=$arch $GO build -trimpath -ldflags=-s -o "$dir/redlatch" ./cmd/redlatch
	cp LICENSE docs/redlatch.md "$dir"
	# The same commit gives the same bytes, whoever packs it.
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" \
		-C dist -cf - "${dir#dist/}" | gzip -n >"$dir.tar.gz"
	rm -r "$dir"
done
$GO run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 app -json -licenses \
	-main cmd/redlatch -output "dist/redlatch_$version.cdx.json" .
(cd dist && sha256sum -- * >checksums.txt)
