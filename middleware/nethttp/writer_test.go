package guardhttp

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// plain is a ResponseWriter and nothing else.
type plain struct{ http.ResponseWriter }

type (
	canF struct{}
	canH struct{ err error }
	canR struct{ used *bool }
)

func (canF) Flush()                                         {}
func (c canH) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, c.err }
func (c canR) ReadFrom(io.Reader) (int64, error)            { *c.used = true; return 0, nil }

func TestTrackKeepsAbilitiesAndAddsNone(t *testing.T) {
	t.Parallel()
	base := plain{httptest.NewRecorder()}
	for name, w := range map[string]http.ResponseWriter{
		"neither": base,
		"flush": struct {
			plain
			canF
		}{plain: base},
		"hijack": struct {
			plain
			canH
		}{plain: base},
		"both": struct {
			plain
			canF
			canH
		}{plain: base},
	} {
		tracked := track(w)
		assert.Equal(t, can[http.Flusher](w), can[http.Flusher](tracked), name)
		assert.Equal(t, can[http.Hijacker](w), can[http.Hijacker](tracked), name)
		assert.Equal(t, w, tracked.(interface{ Unwrap() http.ResponseWriter }).Unwrap(), name)
		assert.False(t, written(tracked), name)
	}
}

func can[Ability any](w http.ResponseWriter) bool {
	_, ok := w.(Ability)
	return ok
}

func TestTrackCopiesAsTheOriginalDoes(t *testing.T) {
	t.Parallel()
	used := false
	_, err := io.Copy(track(struct {
		plain
		canR
	}{plain{httptest.NewRecorder()}, canR{&used}}), onlyReader{strings.NewReader("x")})
	assert.NoError(t, err)
	assert.True(t, used)

	rec := httptest.NewRecorder()
	_, err = io.Copy(track(plain{rec}), onlyReader{strings.NewReader("text")})
	assert.NoError(t, err)
	assert.Equal(t, "text", rec.Body.String())
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

func TestTrackNoticesWhatBeginsAnAnswer(t *testing.T) {
	t.Parallel()
	w := func(err error) http.ResponseWriter {
		return struct {
			plain
			canF
			canH
		}{plain: plain{httptest.NewRecorder()}, canH: canH{err}}
	}
	for name, row := range map[string]struct {
		inner http.ResponseWriter
		do    func(http.ResponseWriter)
		want  bool
	}{
		"status":         {w(nil), func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, true},
		"upgrade":        {httptest.NewRecorder(), func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) }, true},
		"early hints":    {w(nil), func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, false},
		"body":           {w(nil), func(w http.ResponseWriter) { _, _ = w.Write(nil) }, true},
		"string":         {w(nil), func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, true},
		"flush":          {w(nil), func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, true},
		"controller":     {httptest.NewRecorder(), func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, true},
		"cannot flush":   {plain{httptest.NewRecorder()}, func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, false},
		"hijack":         {w(nil), func(w http.ResponseWriter) { _, _, _ = w.(http.Hijacker).Hijack() }, true},
		"failing hijack": {w(errors.New("no")), func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() }, false},
		"copy":           {w(nil), func(w http.ResponseWriter) { _, _ = io.Copy(w, onlyReader{strings.NewReader("x")}) }, true},
		"header":         {w(nil), func(w http.ResponseWriter) { w.Header().Set("A", "b") }, false},
	} {
		tracked := track(row.inner)
		row.do(tracked)
		assert.Equal(t, row.want, written(tracked), name)
		assert.Equal(t, row.want, written(struct{ unwrapper }{unwrapper{tracked}}), name)
	}
	assert.False(t, written(httptest.NewRecorder()))
}

// unwrapper is somebody's wrapper around ours.
type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// lost serves work under a lock that is lost in it, over a real connection, and gives
// what the server logged.
func lost(t *testing.T, work http.HandlerFunc, call func(url string)) (logged string) {
	t.Helper()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	defer func() { _ = g.Close() }()
	h := Middleware(g, Key("order:{id}"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work(w, r)
		store.Drop("order:7")
		<-r.Context().Done()
	}))
	mux := http.NewServeMux()
	mux.Handle("GET /orders/{id}", h)
	srv := httptest.NewUnstartedServer(mux)
	var logs strings.Builder
	srv.Config.ErrorLog = log.New(&logs, "", 0)
	srv.Start()
	call(srv.URL + "/orders/7")
	srv.Close()
	return logs.String()
}

func TestLostAfterStreaming(t *testing.T) {
	t.Parallel()
	logged := lost(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first")
		assert.NoError(t, http.NewResponseController(w).Flush())
		n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(" second"))
		assert.NoError(t, err)
		assert.EqualValues(t, 7, n)
	}, func(url string) {
		body := get(t, url, http.StatusOK)
		assert.Equal(t, "first second", body)
	})
	assert.Empty(t, logged)
}

func TestLostAfterHijack(t *testing.T) {
	t.Parallel()
	logged := lost(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		assert.NoError(t, rw.Flush())
		assert.NoError(t, conn.Close())
	}, func(url string) { assert.Equal(t, "hi", get(t, url, http.StatusOK)) })
	assert.Empty(t, logged)
}

func TestLostBeforeAnything(t *testing.T) {
	t.Parallel()
	logged := lost(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
	}, func(url string) {
		assert.Contains(t, get(t, url, http.StatusInternalServerError), `"code":"lock_lost"`)
	})
	assert.Empty(t, logged)
}

// get gives the body of a GET over a connection of its own.
func get(t *testing.T, url string, status int) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, status, res.StatusCode)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(body)
}
