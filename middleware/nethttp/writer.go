package guardhttp

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// tracker notes whether an answer was begun. It is used by one request at a time.
type tracker struct {
	http.ResponseWriter
	written bool
}

// Unwrap is what http.ResponseController looks for.
func (t *tracker) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Written says whether an answer was begun, or the connection taken over.
func (t *tracker) Written() bool { return t.written }

func (t *tracker) WriteHeader(status int) {
	// Informational answers, save for the switch of protocols, leave the real one open.
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		t.written = true
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *tracker) Write(p []byte) (int, error) {
	t.written = true
	return t.ResponseWriter.Write(p)
}

func (t *tracker) WriteString(s string) (int, error) {
	t.written = true
	return io.WriteString(t.ResponseWriter, s)
}

// ReadFrom promises nothing that the original lacks: io.Copy finds out what that can do.
// Without it, a file would no longer be sent by sendfile.
func (t *tracker) ReadFrom(src io.Reader) (int64, error) {
	t.written = true
	return io.Copy(t.ResponseWriter, src)
}

// FlushError flushes through http.ResponseController, which finds it here first: a
// Flush that it found further in by Unwrap would go unnoticed.
func (t *tracker) FlushError() error {
	err := http.NewResponseController(t.ResponseWriter).Flush()
	t.written = t.written || !errors.Is(err, http.ErrNotSupported)
	return err
}

// The interfaces to be had only where the original has them.
type (
	flusher  struct{ *tracker }
	hijacker struct{ *tracker }
)

func (f flusher) Flush() {
	f.written = true
	f.ResponseWriter.(http.Flusher).Flush()
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	h.written = h.written || err == nil
	return conn, rw, err
}
