// Package stack has the whole stack work together: adapters of several frameworks, tracing and guard.
// It has tests and examples only. It is a module of its own, as only its tests need all of these at once.
package stack
