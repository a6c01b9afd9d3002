// Package retry sends one command until it is answered.
//
// A Call is a method of a store and its request. An attempt ends after half of StoreTimeout,
// or 1 s, and the next one begins: only so is a server noticed that hangs, or was replaced. The
// call ends with an answer, with a refusal (unless RepeatRefused is set, as for releases), or when its caller waits no longer. Nobody knows then
// whether an unanswered attempt took effect, and the call says so (InDoubt).
//
// It relies on commands that may be executed twice with the outcome of once, on a store
// that heeds its context, and on guardstore's error for a refusal. It never knows
// what a command does, never runs one by itself once Run has returned, and starts no goroutine.
package retry
