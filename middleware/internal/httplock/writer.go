package httplock

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// Writer gives the Answer as an http.ResponseWriter that can do what the original can, and
// no more: handlers find out by type assertion, so a writer that always had everything
// would promise what it cannot keep. It is the same one each time.
func (a *Answer) Writer() http.ResponseWriter {
	if a.writer == nil {
		a.writer = httpsnoop.Wrap(a.flushable(), a.hooks())
	}
	return a.writer
}

func (a *Answer) hooks() httpsnoop.Hooks {
	return httpsnoop.Hooks{
		WriteHeader: func(httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc { return a.WriteHeader },
		Write:       func(httpsnoop.WriteFunc) httpsnoop.WriteFunc { return a.Write },
		WriteString: func(httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc { return a.WriteString },
		Flush: func(original httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { _ = a.FlushBy(func() error { original(); return nil }) }
		},
		FlushError: func(original httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error { return a.FlushBy(original) }
		},
		Hijack: func(original httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) { return a.HijackBy(original) }
		},
		ReadFrom: func(original httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				if a.captures {
					return io.Copy(struct{ io.Writer }{a}, src)
				}
				if err := a.begin(); err != nil {
					return 0, err
				}
				return original(src)
			}
		},
	}
}

// HijackBy hands the connection to the handler, by the original's Hijack.
func (a *Answer) HijackBy(original httpsnoop.HijackFunc) (net.Conn, *bufio.ReadWriter, error) {
	if err := a.mayBegin(); err != nil {
		return nil, nil, err
	}
	a.send()
	conn, rw, err := original()
	a.sent = a.sent || err == nil
	return conn, rw, err
}

// flushable gives the original. One that leaves flushing to what it wraps gets a method for
// it: http.ResponseController would go past the Answer, and a status that it holds back.
func (a *Answer) flushable() http.ResponseWriter {
	_, wraps := a.ResponseWriter.(httpsnoop.Unwrapper)
	_, flushes := a.ResponseWriter.(http.Flusher)
	_, flushesWithError := a.ResponseWriter.(interface{ FlushError() error })
	if !wraps || flushes || flushesWithError {
		return a.ResponseWriter
	}
	return flushing{a.ResponseWriter}
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f flushing) FlushError() error { return http.NewResponseController(f.ResponseWriter).Flush() }

type contextKey struct{}

// Context gives ctx with the Answer in it, for Written.
func (a *Answer) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// Written says whether w is known to be written to: it is, or wraps, the Writer of the Answer
// in ctx, or a writer of a framework that says so itself.
func Written(ctx context.Context, w http.ResponseWriter) bool {
	a, _ := ctx.Value(contextKey{}).(*Answer)
	for {
		if a != nil && w == a.writer {
			return a.Written()
		}
		switch v := w.(type) {
		case interface{ Written() bool }:
			return v.Written()
		case httpsnoop.Unwrapper:
			w = v.Unwrap()
		default:
			return false
		}
	}
}
