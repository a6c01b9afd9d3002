// Package version has the version of the next release, for all modules. The spans of tracing have
// it; scripts/release.sh tags nothing else.
package version

// Number is the version without its "v".
const Number = "0.1.0"
