package guardhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// What a tracker can do only where the original can.
type (
	flusher    struct{ *tracker }
	hijacker   struct{ *tracker }
	notifier   struct{ *tracker }
	readerFrom struct{ *tracker }
	pusher     struct{ *tracker }
)

func (f flusher) Flush() { _ = f.FlushError() }

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := h.mayBegin(); err != nil {
		return nil, nil, err
	}
	h.send()
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	h.sent = h.sent || err == nil
	return conn, rw, err
}

func (n notifier) CloseNotify() <-chan bool {
	return n.ResponseWriter.(http.CloseNotifier).CloseNotify() //nolint:staticcheck // gin uses it
}

func (f readerFrom) ReadFrom(src io.Reader) (int64, error) {
	if err := f.begin(); err != nil {
		return 0, err
	}
	return f.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (p pusher) Push(target string, opts *http.PushOptions) error {
	return p.ResponseWriter.(http.Pusher).Push(target, opts)
}

// The bits of what an original can do.
const (
	canFlush = 1 << iota
	canHijack
	canNotify
	canReadFrom
	canPush
)

// writer gives the tracker as an http.ResponseWriter that can do what the original can, and
// no more: handlers find out by type assertion, so a wrapper that always had everything
// would promise what it cannot keep.
func (t *tracker) writer() http.ResponseWriter {
	var can int
	if _, ok := t.ResponseWriter.(http.Flusher); ok {
		can |= canFlush
	}
	if _, ok := t.ResponseWriter.(http.Hijacker); ok {
		can |= canHijack
	}
	if _, ok := t.ResponseWriter.(http.CloseNotifier); ok { //nolint:staticcheck // gin uses it
		can |= canNotify
	}
	if _, ok := t.ResponseWriter.(io.ReaderFrom); ok {
		can |= canReadFrom
	}
	if _, ok := t.ResponseWriter.(http.Pusher); ok {
		can |= canPush
	}
	return t.with(can)
}

// with gives the tracker with the methods that can says.
func (t *tracker) with(can int) http.ResponseWriter {
	switch can {
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
	case canFlush | canHijack:
		return struct {
			*tracker
			flusher
			hijacker
		}{t, flusher{t}, hijacker{t}}
	case canNotify:
		return struct {
			*tracker
			notifier
		}{t, notifier{t}}
	case canFlush | canNotify:
		return struct {
			*tracker
			flusher
			notifier
		}{t, flusher{t}, notifier{t}}
	case canHijack | canNotify:
		return struct {
			*tracker
			hijacker
			notifier
		}{t, hijacker{t}, notifier{t}}
	case canFlush | canHijack | canNotify:
		return struct {
			*tracker
			flusher
			hijacker
			notifier
		}{t, flusher{t}, hijacker{t}, notifier{t}}
	case canReadFrom:
		return struct {
			*tracker
			readerFrom
		}{t, readerFrom{t}}
	case canFlush | canReadFrom:
		return struct {
			*tracker
			flusher
			readerFrom
		}{t, flusher{t}, readerFrom{t}}
	case canHijack | canReadFrom:
		return struct {
			*tracker
			hijacker
			readerFrom
		}{t, hijacker{t}, readerFrom{t}}
	case canFlush | canHijack | canReadFrom:
		return struct {
			*tracker
			flusher
			hijacker
			readerFrom
		}{t, flusher{t}, hijacker{t}, readerFrom{t}}
	case canNotify | canReadFrom:
		return struct {
			*tracker
			notifier
			readerFrom
		}{t, notifier{t}, readerFrom{t}}
	case canFlush | canNotify | canReadFrom:
		return struct {
			*tracker
			flusher
			notifier
			readerFrom
		}{t, flusher{t}, notifier{t}, readerFrom{t}}
	case canHijack | canNotify | canReadFrom:
		return struct {
			*tracker
			hijacker
			notifier
			readerFrom
		}{t, hijacker{t}, notifier{t}, readerFrom{t}}
	case canFlush | canHijack | canNotify | canReadFrom:
		return struct {
			*tracker
			flusher
			hijacker
			notifier
			readerFrom
		}{t, flusher{t}, hijacker{t}, notifier{t}, readerFrom{t}}
	case canPush:
		return struct {
			*tracker
			pusher
		}{t, pusher{t}}
	case canFlush | canPush:
		return struct {
			*tracker
			flusher
			pusher
		}{t, flusher{t}, pusher{t}}
	case canHijack | canPush:
		return struct {
			*tracker
			hijacker
			pusher
		}{t, hijacker{t}, pusher{t}}
	case canFlush | canHijack | canPush:
		return struct {
			*tracker
			flusher
			hijacker
			pusher
		}{t, flusher{t}, hijacker{t}, pusher{t}}
	case canNotify | canPush:
		return struct {
			*tracker
			notifier
			pusher
		}{t, notifier{t}, pusher{t}}
	case canFlush | canNotify | canPush:
		return struct {
			*tracker
			flusher
			notifier
			pusher
		}{t, flusher{t}, notifier{t}, pusher{t}}
	case canHijack | canNotify | canPush:
		return struct {
			*tracker
			hijacker
			notifier
			pusher
		}{t, hijacker{t}, notifier{t}, pusher{t}}
	case canFlush | canHijack | canNotify | canPush:
		return struct {
			*tracker
			flusher
			hijacker
			notifier
			pusher
		}{t, flusher{t}, hijacker{t}, notifier{t}, pusher{t}}
	case canReadFrom | canPush:
		return struct {
			*tracker
			readerFrom
			pusher
		}{t, readerFrom{t}, pusher{t}}
	case canFlush | canReadFrom | canPush:
		return struct {
			*tracker
			flusher
			readerFrom
			pusher
		}{t, flusher{t}, readerFrom{t}, pusher{t}}
	case canHijack | canReadFrom | canPush:
		return struct {
			*tracker
			hijacker
			readerFrom
			pusher
		}{t, hijacker{t}, readerFrom{t}, pusher{t}}
	case canFlush | canHijack | canReadFrom | canPush:
		return struct {
			*tracker
			flusher
			hijacker
			readerFrom
			pusher
		}{t, flusher{t}, hijacker{t}, readerFrom{t}, pusher{t}}
	case canNotify | canReadFrom | canPush:
		return struct {
			*tracker
			notifier
			readerFrom
			pusher
		}{t, notifier{t}, readerFrom{t}, pusher{t}}
	case canFlush | canNotify | canReadFrom | canPush:
		return struct {
			*tracker
			flusher
			notifier
			readerFrom
			pusher
		}{t, flusher{t}, notifier{t}, readerFrom{t}, pusher{t}}
	case canHijack | canNotify | canReadFrom | canPush:
		return struct {
			*tracker
			hijacker
			notifier
			readerFrom
			pusher
		}{t, hijacker{t}, notifier{t}, readerFrom{t}, pusher{t}}
	case canFlush | canHijack | canNotify | canReadFrom | canPush:
		return struct {
			*tracker
			flusher
			hijacker
			notifier
			readerFrom
			pusher
		}{t, flusher{t}, hijacker{t}, notifier{t}, readerFrom{t}, pusher{t}}
	}
	return t
}
