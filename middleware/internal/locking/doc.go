// Package locking runs an adapter's work under a lock and tells the work's own errors
// from guard's. It is what the adapters have in common, whatever they adapt to.
package locking
