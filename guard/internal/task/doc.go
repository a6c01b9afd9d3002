// Package task owns goroutines: each belongs to a [Group], and the owner of the group closes it and waits
// until all of them have ended. A closed group starts nothing: Go returns false, and its caller decides
// what to do. A group never ends a goroutine. Long goroutines watch a stop channel of their owner.
//
// A [Gate] counts work. It closes in two steps: Drain refuses new work, Close also refuses work that
// belongs to work inside.
package task
