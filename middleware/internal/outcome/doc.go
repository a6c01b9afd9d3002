// Package outcome is the one place that says how an error of guard is answered over
// HTTP: status, code, Retry-After and the RFC 9457 problem body. The HTTP adapters only
// render what it says. Nothing in an answer comes from the error's text, the key, the
// owner or the holder.
package outcome
