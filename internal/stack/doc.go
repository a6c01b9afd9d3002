// Package stack has examples that need adapters of several frameworks, tracing and guard at once. Below it is the
// shop that guard_test.go, at the top of the repository, runs. It is a module of its own, as guard requires none of these.
package stack
