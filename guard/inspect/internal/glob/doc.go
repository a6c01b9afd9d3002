// Package glob compares keys with patterns as Redis has them, by characters instead of bytes: *
// is any text, ? one character, [abc] and [a-z] one of some, [^a] none of some, \ takes the next
// character as it is. It relies on nothing, and never fails on a pattern that is not closed.
package glob
