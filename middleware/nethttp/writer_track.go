package guardhttp

import "net/http"

// track wraps w in a tracker that is a Flusher and a Hijacker where w is one: handlers
// find out by type assertion what they can do, so a wrapper that had both would promise
// what it cannot keep.
func track(w http.ResponseWriter) http.ResponseWriter {
	t := &tracker{ResponseWriter: w}
	_, canFlush := w.(http.Flusher)
	_, canHijack := w.(http.Hijacker)
	switch {
	case canFlush && canHijack:
		return struct {
			*tracker
			flusher
			hijacker
		}{t, flusher{t}, hijacker{t}}
	case canFlush:
		return struct {
			*tracker
			flusher
		}{t, flusher{t}}
	case canHijack:
		return struct {
			*tracker
			hijacker
		}{t, hijacker{t}}
	}
	return t
}
