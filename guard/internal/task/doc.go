// Package task owns goroutines: each belongs to a [Group], and whoever closes the group
// waits until all of them are gone.
//
// A group starts nothing once it is closed: Go says so, and its caller decides what then.
// It never ends a goroutine. Those that may last listen for the end of their owner
// themselves.
package task
