// Package outcome is the HTTP table of what an error of guard means: status, code,
// Retry-After and the RFC 9457 problem body. Nothing in an answer comes from the error's
// text, the key, the owner or the holder.
package outcome
