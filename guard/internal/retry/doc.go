// Package retry sends one command until the store answers it.
//
// A Call is a method of a store and its request. An attempt ends after half of StoreTimeout, or 1 s,
// and the next attempt begins: so a server that hangs or was replaced is noticed. Run returns when the
// store answers, when it refuses (unless RepeatRefused is set, as for releases), or when the caller
// waits no longer. InDoubt says that an attempt without an answer may still take effect.
//
// It relies on commands that may be executed twice with the outcome of once, on a store that heeds its
// context, and on guardstore's error for a refusal. It starts no goroutine. A Backoff gives the pauses
// of a loop that many processes run, such as Lead: longer after each failure, and jittered.
package retry
