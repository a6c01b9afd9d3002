package httplock

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// full is a ResponseWriter with all abilities. It notes the last ability that was used.
type full struct {
	*httptest.ResponseRecorder
	did string
	err error // of Hijack
}

func (f *full) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	f.did = "hijack"
	return nil, nil, f.err
}
func (f *full) CloseNotify() <-chan bool             { return nil }
func (f *full) Push(string, *http.PushOptions) error { return nil }
func (f *full) SetWriteDeadline(time.Time) error     { f.did = "deadline"; return nil }
func (f *full) ReadFrom(src io.Reader) (int64, error) {
	f.did = "read"
	return io.Copy(f.ResponseRecorder, src)
}

// plain is a ResponseWriter and nothing else.
type plain struct{ http.ResponseWriter }

// unwrapper is a wrapper that leaves all other abilities to http.ResponseController.
type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// flushesOrNot says when it cannot flush.
type flushesOrNot struct{}

func (flushesOrNot) FlushError() error { return nil }

// saysSo is a writer of a framework that knows whether it was written to.
type saysSo struct{ http.ResponseWriter }

func (saysSo) Written() bool { return true }

func newFull() *full { return &full{ResponseRecorder: httptest.NewRecorder()} }

func track(w http.ResponseWriter) http.ResponseWriter {
	return newAnswer(context.Background(), w).Writer()
}

// written asks as an adapter does for a request under a.
func written(a *Answer, w http.ResponseWriter) bool {
	return Written(a.Context(context.Background()), w)
}

func can[Ability any](w http.ResponseWriter) bool {
	_, ok := w.(Ability)
	return ok
}

func abilities(w http.ResponseWriter) (all []bool) {
	return []bool{
		can[http.Flusher](w),
		can[http.Hijacker](w),
		can[http.CloseNotifier](w), //nolint:staticcheck // gin uses it
		can[io.ReaderFrom](w),
		can[http.Pusher](w),
	}
}

// A type assertion of a handler finds an ability if, and only if, the original has it.
func TestWriter_KeepsAbilitiesAndAddsNone(t *testing.T) {
	t.Parallel()
	for name, original := range map[string]http.ResponseWriter{
		"everything": newFull(),
		"nothing":    plain{newFull()},
		"a recorder": httptest.NewRecorder(),
		"no flush": struct {
			http.ResponseWriter
			http.Hijacker
			http.Pusher
		}{ResponseWriter: newFull()},
		"unwraps": unwrapper{newFull()},
		"and flushes": struct {
			unwrapper
			http.Flusher
		}{unwrapper{newFull()}, newFull()},
		"and says so": struct {
			unwrapper
			flushesOrNot
			io.ReaderFrom
		}{unwrapper{newFull()}, flushesOrNot{}, newFull()},
	} {
		assert.Equal(t, abilities(original), abilities(track(original)), name)
	}
}

func TestWriter_DoesWhatTheOriginalDoes(t *testing.T) {
	t.Parallel()
	f := newFull()
	w := track(f)
	for did, do := range map[string]func(){
		"hijack": func() { _, _, _ = http.NewResponseController(w).Hijack() },
		"read":   func() { _, _ = io.Copy(w, onlyReader{strings.NewReader("x")}) },
	} {
		do()
		assert.Equal(t, did, f.did)
	}
	w.(http.Flusher).Flush()
	assert.True(t, f.Flushed)
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

func TestWriter_NoticesTheBeginOfAnAnswer(t *testing.T) {
	t.Parallel()
	failing := newFull()
	failing.err = errors.New("no")
	for name, row := range map[string]struct {
		inner http.ResponseWriter
		do    func(http.ResponseWriter)
		want  bool
	}{
		"status":         {newFull(), func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, true},
		"upgrade":        {newFull(), func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) }, true},
		"early hints":    {newFull(), func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, false},
		"body":           {newFull(), func(w http.ResponseWriter) { _, _ = w.Write(nil) }, true},
		"string":         {newFull(), func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, true},
		"flush":          {newFull(), func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, true},
		"controller":     {newFull(), func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, true},
		"further in":     {unwrapper{newFull()}, func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, true},
		"cannot flush":   {plain{newFull()}, func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, false},
		"hijack":         {newFull(), func(w http.ResponseWriter) { _, _, _ = w.(http.Hijacker).Hijack() }, true},
		"failing hijack": {failing, func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() }, false},
		"copy":           {newFull(), func(w http.ResponseWriter) { _, _ = io.Copy(w, onlyReader{strings.NewReader("x")}) }, true},
		"push":           {newFull(), func(w http.ResponseWriter) { _ = w.(http.Pusher).Push("/x", nil) }, false},
		"header":         {newFull(), func(w http.ResponseWriter) { w.Header().Set("A", "b") }, false},
	} {
		a := newAnswer(context.Background(), row.inner)
		tracked := a.Writer()
		row.do(tracked)
		assert.Equal(t, row.want, written(a, tracked), name)
		assert.Equal(t, row.want, written(a, unwrapper{tracked}), name)
		assert.False(t, written(a, httptest.NewRecorder()), "that is another one")
	}
	assert.False(t, Written(context.Background(), httptest.NewRecorder()))
	assert.True(t, Written(context.Background(), saysSo{}), "a framework's own")
}

// An ability that fails leaves an answer as it was, and its error is the handler's.
func TestAnswer_AFailedAbilityChangesNothing(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, do := range map[string]func(a *Answer, err error) error{
		"flush":  func(a *Answer, err error) error { return a.FlushBy(func() error { return err }) },
		"hijack": func(a *Answer, err error) error { _, _, err = a.HijackBy(hijack(err)); return err },
	} {
		a := newAnswer(context.Background(), newFull())
		require.ErrorIs(t, do(a, http.ErrNotSupported), http.ErrNotSupported, name)
		assert.False(t, a.Sent(), name)
		_, err := a.WriteString("a")
		require.NoError(t, err)
		require.ErrorIs(t, do(a, http.ErrNotSupported), http.ErrNotSupported, name)
		assert.True(t, a.Sent(), name)
		require.ErrorIs(t, do(a, no), no, name)
		assert.True(t, a.Sent(), name)
	}
	to := newFull()
	a := newAnswer(context.Background(), to)
	a.WriteHeader(http.StatusCreated)
	_, _, err := a.HijackBy(hijack(nil))
	require.NoError(t, err)
	assert.Equal(t, http.StatusCreated, to.Code, "what was held back comes first")
}

func hijack(err error) func() (net.Conn, *bufio.ReadWriter, error) {
	return func() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, err }
}

// A status that is held back goes out with what a controller flushes, wherever it finds
// what can be flushed.
func TestWriter_FlushFurtherInSendsTheStatus(t *testing.T) {
	t.Parallel()
	f := newFull()
	w := track(unwrapper{f})
	w.WriteHeader(http.StatusCreated)
	require.NoError(t, http.NewResponseController(w).Flush())
	assert.Equal(t, http.StatusCreated, f.Code)
	cannot := track(unwrapper{plain{f}})
	require.ErrorIs(t, http.NewResponseController(cannot).Flush(), http.ErrNotSupported)
}

// http.ResponseController finds the original through the Writer.
func TestWriter_IsUnwrapped(t *testing.T) {
	t.Parallel()
	f := newFull()
	a := newAnswer(context.Background(), unwrapper{f})
	require.NoError(t, http.NewResponseController(a.Writer()).SetWriteDeadline(time.Now()))
	assert.Equal(t, "deadline", f.did)
	assert.True(t, a.Writer() == a.Writer()) //nolint:testifylint // interfaces, of no pointers
}
