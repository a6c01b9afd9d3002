package httplock

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// Writer returns the Answer as an http.ResponseWriter with the abilities of the original, and no others: handlers find
// them by type assertion. It returns the same writer each time.
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

// HijackBy gives the connection to the handler, by the original's Hijack.
func (a *Answer) HijackBy(original httpsnoop.HijackFunc) (net.Conn, *bufio.ReadWriter, error) {
	if err := a.mayBegin(); err != nil {
		return nil, nil, err
	}
	a.send()
	conn, rw, err := original()
	a.sent = a.sent || err == nil
	return conn, rw, err
}

// flushable returns the original, with a method to flush if it leaves flushing to the writer that it wraps. Without the
// method, http.ResponseController would flush that writer before the Answer has sent the held status.
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

// Context returns ctx with the Answer in it, for Written.
func (a *Answer) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// Written reports whether w was written to, as far as it is known: w is, or wraps, the Writer of the Answer in ctx, or
// a framework's writer with a method Written.
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
