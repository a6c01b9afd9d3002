// Package generate makes mutants of a Go package: changes of one condition, statement, value or
// result each. All of them are in one program, each guarded by a switch, so that a package is built
// once for all of its mutants. The switch is set by environment variables when a test program starts.
package generate
