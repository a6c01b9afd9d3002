// Package retry sends one command until it is answered.
//
// A Call sends a command, waits for its answer for a while, and sends it once more when there
// is none: a server that hangs, or was replaced, is noticed by that, and by nothing else. It
// ends with an answer, with a refusal, or when its caller wants to wait no longer. What became
// of an attempt that nobody answered is not known then, and the call says so (InDoubt).
//
// It relies on commands that may be executed twice with the outcome of once, on senders that
// heed the deadline of their context, and on guardstore's word for a refusal. It never knows
// what a command does, never runs one by itself once Run has returned, and starts no goroutine.
package retry
