// Package retry sends one command until the store answers it.
//
// [Do] calls a method of a store. An attempt ends after half of StoreTimeout, or 1 s, and the next one
// begins: so a server that hangs or was replaced is noticed. Do returns when the store answers, when it
// refuses (a release is repeated all the same), when the caller's context ends, or when the time is up.
// InDoubt in its Answer means that an attempt without an answer may still take effect.
//
// Package retry relies on commands that have the outcome of once if they are executed twice, on a store that heeds its
// context, and on guardstore's error for a refusal. It starts no goroutine. A [Backoff] returns the pauses
// of a loop that many processes run, such as Lead: longer after each failure, and jittered.
package retry
