// Package backoff says how long to pause between two tries that many processes make: after a try
// that went well a little, after those that failed longer and longer, and never all at once.
//
// It relies on package time alone. It knows nothing of what is tried.
package backoff
