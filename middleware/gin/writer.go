package guardgin

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redlatch/redlatch/middleware/internal/httplock"
)

// writer is gin's writer with the Answer in between. Like gin's own, it notes a status, and sends it with the next
// write.
type writer struct {
	now          // the original
	answer       httplock.Answer
	status, size int
}

// now is an original whose WriteHeader sends at once, as an Answer expects it.
type now struct{ gin.ResponseWriter }

// WriteHeader sends an informational status below gin's writer, which would take it for the status of the answer.
func (n now) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		n.ResponseWriter.WriteHeader(status)
		n.WriteHeaderNow()
		return
	}
	if wraps, ok := n.ResponseWriter.(interface{ Unwrap() http.ResponseWriter }); ok {
		wraps.Unwrap().WriteHeader(status)
	}
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) Status() int { return w.status }

func (w *writer) Written() bool { return w.answer.Written() }

// Size is -1 while nothing is written, as gin has it.
func (w *writer) Size() int {
	if !w.Written() {
		return -1
	}
	return w.size
}

func (w *writer) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

func (w *writer) WriteHeaderNow() {
	if w.Written() {
		return
	}
	if w.answer.WriteHeader(w.status); !w.Written() { // it was informational
		w.status = http.StatusOK
	}
}

func (w *writer) Write(p []byte) (n int, err error) {
	w.WriteHeaderNow()
	n, err = w.answer.Write(p)
	w.size += n
	return n, err
}

func (w *writer) WriteString(s string) (n int, err error) {
	w.WriteHeaderNow()
	n, err = w.answer.WriteString(s)
	w.size += n
	return n, err
}

func (w *writer) Flush() {
	w.WriteHeaderNow()
	_ = w.answer.FlushBy(func() error { w.ResponseWriter.Flush(); return nil })
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.answer.HijackBy(w.ResponseWriter.Hijack)
}
