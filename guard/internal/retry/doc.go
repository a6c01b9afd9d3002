// Package retry sends one command until it is answered.
//
// A Call is one of a store's methods with what it is asked. An attempt is given up after half of
// StoreTimeout, or 1 s, and made once more: a server that hangs, or was replaced, is noticed by
// that, and by nothing else. The call ends with an answer, with a refusal, or when its caller
// wants to wait no longer. What became of an attempt that nobody answered is not known then, and
// the call says so (InDoubt).
//
// It relies on commands that may be executed twice with the outcome of once, on a store
// that heeds its context, and on guardstore's word for a refusal. It never knows
// what a command does, never runs one by itself once Run has returned, and starts no goroutine.
package retry
