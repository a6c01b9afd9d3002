package guardhttp

import (
	"io"
	"net/http"
)

const (
	canFlush = 1 << iota
	canHijack
	canReadFrom
	canPush
)

// track wraps w in a tracker that has those of the optional interfaces that w has.
// Handlers find out by type assertion what they can do, so a wrapper that had them all
// would promise what it cannot keep.
func track(w http.ResponseWriter) http.ResponseWriter {
	t := &tracker{ResponseWriter: w}
	f, h, r, p := flusher{t}, hijacker{t}, readerFrom{t}, pusher{t}
	switch abilities(w) {
	case canFlush:
		return struct {
			*tracker
			flusher
		}{t, f}
	case canHijack:
		return struct {
			*tracker
			hijacker
		}{t, h}
	case canFlush | canHijack:
		return struct {
			*tracker
			flusher
			hijacker
		}{t, f, h}
	case canReadFrom:
		return struct {
			*tracker
			readerFrom
		}{t, r}
	case canFlush | canReadFrom:
		return struct {
			*tracker
			flusher
			readerFrom
		}{t, f, r}
	case canHijack | canReadFrom:
		return struct {
			*tracker
			hijacker
			readerFrom
		}{t, h, r}
	case canFlush | canHijack | canReadFrom:
		return struct {
			*tracker
			flusher
			hijacker
			readerFrom
		}{t, f, h, r}
	case canPush:
		return struct {
			*tracker
			pusher
		}{t, p}
	case canFlush | canPush:
		return struct {
			*tracker
			flusher
			pusher
		}{t, f, p}
	case canHijack | canPush:
		return struct {
			*tracker
			hijacker
			pusher
		}{t, h, p}
	case canFlush | canHijack | canPush:
		return struct {
			*tracker
			flusher
			hijacker
			pusher
		}{t, f, h, p}
	case canReadFrom | canPush:
		return struct {
			*tracker
			readerFrom
			pusher
		}{t, r, p}
	case canFlush | canReadFrom | canPush:
		return struct {
			*tracker
			flusher
			readerFrom
			pusher
		}{t, f, r, p}
	case canHijack | canReadFrom | canPush:
		return struct {
			*tracker
			hijacker
			readerFrom
			pusher
		}{t, h, r, p}
	case canFlush | canHijack | canReadFrom | canPush:
		return struct {
			*tracker
			flusher
			hijacker
			readerFrom
			pusher
		}{t, f, h, r, p}
	}
	return t
}

func abilities(w http.ResponseWriter) int {
	can := 0
	if _, ok := w.(http.Flusher); ok {
		can |= canFlush
	}
	if _, ok := w.(http.Hijacker); ok {
		can |= canHijack
	}
	if _, ok := w.(io.ReaderFrom); ok {
		can |= canReadFrom
	}
	if _, ok := w.(http.Pusher); ok {
		can |= canPush
	}
	return can
}
