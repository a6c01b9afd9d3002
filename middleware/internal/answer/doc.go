// Package answer stands between a handler and its client, for all HTTP adapters. It holds a
// status back until a body follows, it is flushed, or the handler is done, so that a lock
// that is lost before anything was sent can still be answered, and sends no success that
// began after the loss. For a Rule with Once it holds the whole answer back, to keep it.
package answer
