// Package release tries scripts/release.sh on a copy of the tree. It has tests only.
package release
