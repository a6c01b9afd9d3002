// Package task owns goroutines: each belongs to a [Group], and the owner of the group
// closes it and waits until all of them have ended.
//
// A closed group starts nothing: Go returns false, and its caller decides what to do.
// A group never ends a goroutine. Long goroutines watch a stop channel of their owner.
package task
