package guardhttp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// full is a ResponseWriter that can do everything, and says what it was asked for.
type full struct {
	*httptest.ResponseRecorder
	did string
	err error // of Hijack
}

func (f *full) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	f.did = "hijack"
	return nil, nil, f.err
}
func (f *full) CloseNotify() <-chan bool             { f.did = "notify"; return nil }
func (f *full) Push(string, *http.PushOptions) error { f.did = "push"; return nil }
func (f *full) SetWriteDeadline(time.Time) error     { f.did = "deadline"; return nil }
func (f *full) ReadFrom(src io.Reader) (int64, error) {
	f.did = "read"
	return io.Copy(f.ResponseRecorder, src)
}

// plain is a ResponseWriter and nothing else.
type plain struct{ http.ResponseWriter }

// unwrapper is somebody's wrapper that leaves all else to http.ResponseController.
type unwrapper struct{ http.ResponseWriter }

func (u unwrapper) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func newFull() *full { return &full{ResponseRecorder: httptest.NewRecorder()} }

func track(w http.ResponseWriter) http.ResponseWriter {
	return newTracker(context.Background(), w).writer()
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

// Every combination of what a ResponseWriter may be able to do.
func TestTrackKeepsAbilitiesAndAddsNone(t *testing.T) {
	t.Parallel()
	for bits := range 1 << 5 {
		original := newTracker(context.Background(), newFull()).with(bits)
		var want []bool
		for bit := range 5 {
			want = append(want, bits>>bit&1 != 0)
		}
		require.Equal(t, want, abilities(original))
		tracked := track(original)
		assert.Equal(t, want, abilities(tracked))
		assert.Equal(t, original, tracked.(interface{ Unwrap() http.ResponseWriter }).Unwrap())
		assert.False(t, written(tracked))
	}
}

func TestTrackDoesWhatTheOriginalDoes(t *testing.T) {
	t.Parallel()
	f := newFull()
	w := track(f)
	for did, do := range map[string]func(){
		"hijack":   func() { _, _, _ = http.NewResponseController(w).Hijack() },
		"notify":   func() { w.(http.CloseNotifier).CloseNotify() }, //nolint:staticcheck // gin uses it
		"push":     func() { _ = w.(http.Pusher).Push("/x", nil) },
		"deadline": func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now()) },
		"read":     func() { _, _ = io.Copy(w, onlyReader{strings.NewReader("x")}) },
	} {
		do()
		assert.Equal(t, did, f.did)
	}
	w.(http.Flusher).Flush()
	assert.True(t, f.Flushed)

	rec := httptest.NewRecorder()
	_, err := io.Copy(track(plain{rec}), onlyReader{strings.NewReader("text")})
	assert.NoError(t, err)
	assert.Equal(t, "text", rec.Body.String())
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

func TestTrackNoticesWhatBeginsAnAnswer(t *testing.T) {
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
		tracked := track(row.inner)
		row.do(tracked)
		assert.Equal(t, row.want, written(tracked), name)
		assert.Equal(t, row.want, written(unwrapper{tracked}), name)
	}
	assert.False(t, written(httptest.NewRecorder()))
}

// What a handler may do, given whether its lock is lost in the middle of it, and what the
// client then gets over a connection.
func TestWhatIsSentOfALostRequest(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		work   func(w http.ResponseWriter, lose func())
		status int
		body   string // or the problem's code
		header string // X-Own
	}{
		"nothing": {
			func(w http.ResponseWriter, lose func()) { w.Header().Set("Content-Length", "1000"); lose() },
			500, "lock_lost", "",
		},
		"status before": {
			func(w http.ResponseWriter, lose func()) { w.WriteHeader(http.StatusNoContent); lose() },
			500, "lock_lost", "",
		},
		"status behind": {
			func(w http.ResponseWriter, lose func()) { lose(); w.WriteHeader(http.StatusNoContent) },
			500, "lock_lost", "",
		},
		"status before, body behind": {
			func(w http.ResponseWriter, lose func()) {
				w.WriteHeader(http.StatusCreated)
				lose()
				_, err := io.WriteString(w, "late")
				assert.ErrorIs(t, err, guard.ErrLost)
			},
			500, "lock_lost", "",
		},
		"body behind": {
			func(w http.ResponseWriter, lose func()) {
				lose()
				_, err := w.Write([]byte("late"))
				assert.ErrorIs(t, err, guard.ErrLost)
				_, err = w.(io.ReaderFrom).ReadFrom(strings.NewReader("late"))
				assert.ErrorIs(t, err, guard.ErrLost)
			},
			500, "lock_lost", "",
		},
		"flush behind": {
			func(w http.ResponseWriter, lose func()) {
				w.WriteHeader(http.StatusCreated)
				lose()
				w.(http.Flusher).Flush()
				assert.ErrorIs(t, http.NewResponseController(w).Flush(), guard.ErrLost)
			},
			500, "lock_lost", "",
		},
		"hijack behind": {
			func(w http.ResponseWriter, lose func()) {
				lose()
				_, _, err := w.(http.Hijacker).Hijack()
				assert.ErrorIs(t, err, guard.ErrLost)
			},
			500, "lock_lost", "",
		},
		"compressed behind": {
			func(w http.ResponseWriter, lose func()) {
				lose()
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write([]byte{0x1f, 0x8b})
			},
			500, "lock_lost", "",
		},
		"second status behind": {
			func(w http.ResponseWriter, lose func()) {
				w.WriteHeader(http.StatusNoContent)
				lose()
				w.WriteHeader(http.StatusInternalServerError)
			},
			500, "lock_lost", "",
		},
		"early hints": {
			func(w http.ResponseWriter, lose func()) {
				w.WriteHeader(http.StatusEarlyHints)
				lose()
				w.WriteHeader(http.StatusEarlyHints)
			},
			500, "lock_lost", "",
		},
		"own error behind": {
			func(w http.ResponseWriter, lose func()) { lose(); http.Error(w, "own", http.StatusServiceUnavailable) },
			503, "own\n", "",
		},
		"own error behind what was refused": {
			func(w http.ResponseWriter, lose func()) {
				lose()
				if _, err := io.WriteString(w, "late"); err != nil {
					http.Error(w, "own", http.StatusServiceUnavailable)
				}
			},
			503, "own\n", "",
		},
		"own error without a body": {
			func(w http.ResponseWriter, lose func()) {
				lose()
				w.Header().Set("X-Own", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			503, "", "1",
		},
		"body before": {
			func(w http.ResponseWriter, lose func()) {
				_, _ = io.WriteString(w, "in ")
				lose()
				_, _ = io.WriteString(w, "time")
			},
			200, "in time", "",
		},
		"status and body before": {
			func(w http.ResponseWriter, lose func()) {
				w.Header().Set("X-Own", "1")
				w.WriteHeader(http.StatusCreated)
				w.Header().Set("X-Own", "late")
				_, _ = io.WriteString(w, "in time")
				lose()
			},
			201, "in time", "1",
		},
		"status and flush before": {
			func(w http.ResponseWriter, lose func()) {
				w.WriteHeader(http.StatusCreated)
				w.(http.Flusher).Flush()
				lose()
			},
			201, "", "",
		},
		"stream before": {
			func(w http.ResponseWriter, lose func()) {
				_, _ = io.WriteString(w, "first")
				assert.NoError(t, http.NewResponseController(w).Flush())
				n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(" second"))
				assert.NoError(t, err)
				assert.EqualValues(t, 7, n)
				lose()
			},
			200, "first second", "",
		},
		"hijack before": {
			func(w http.ResponseWriter, lose func()) {
				conn, rw, err := w.(http.Hijacker).Hijack()
				if !assert.NoError(t, err) {
					return
				}
				_, _ = rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
				assert.NoError(t, rw.Flush())
				assert.NoError(t, conn.Close())
				lose()
			},
			200, "hi", "",
		},
		"not lost, status": {
			func(w http.ResponseWriter, _ func()) {
				w.Header().Set("X-Own", "1")
				w.WriteHeader(http.StatusAccepted)
				w.Header().Set("X-Own", "late")
			},
			202, "", "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, header, body, logged := overAConnection(t, row.work)
			assert.Equal(t, row.status, status)
			if row.body == "lock_lost" {
				assert.Contains(t, body, `"code":"lock_lost"`)
				assert.Equal(t, "application/problem+json", header.Get("Content-Type"))
				assert.Empty(t, header.Get("Content-Encoding"))
			} else {
				assert.Equal(t, row.body, body)
			}
			assert.Equal(t, row.header, header.Get("X-Own"))
			assert.Empty(t, logged, "by the server")
		})
	}
}

// overAConnection serves work under a lock that work can lose, and gives what the client
// gets and what the server logs.
func overAConnection(t *testing.T, work func(w http.ResponseWriter, lose func())) (status int, header http.Header, body, logged string) {
	t.Helper()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	var logs strings.Builder
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Middleware(g, func(*http.Request) (string, error) { return "order:7", nil })(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				work(w, func() { store.Drop("order:7"); <-r.Context().Done() })
			})).ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = log.New(&logs, "", 0)
	srv.Start()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	res, err := client.Get(srv.URL)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	srv.Close()
	return res.StatusCode, res.Header, string(content), logs.String()
}

func TestEncodingOfOuterLayersStays(t *testing.T) {
	t.Parallel()
	store := guardtest.NewStore()
	g, err := guard.NewWithStore(store, guard.TTL(guard.MinTTL))
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Encoding", "outer")
	Middleware(g, func(*http.Request) (string, error) { return "k", nil })(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "inner")
			store.Drop("k")
			<-r.Context().Done()
		})).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil))
	assert.Equal(t, http.StatusInternalServerError, rec.Code)
	assert.Equal(t, "outer", rec.Header().Get("Content-Encoding"))
}

func TestStatusThatIsNoneIsRefusedWhereItIsSet(t *testing.T) {
	t.Parallel()
	for _, status := range []int{0, 99, 1000} {
		assert.Panics(t, func() { track(newFull()).WriteHeader(status) }, "%d", status)
	}
}

// A status that is held back goes out with what a controller flushes, wherever it finds
// what can be flushed.
func TestFlushFurtherInSendsTheStatus(t *testing.T) {
	t.Parallel()
	f := newFull()
	w := track(unwrapper{f})
	w.WriteHeader(http.StatusCreated)
	require.NoError(t, http.NewResponseController(w).Flush())
	assert.Equal(t, http.StatusCreated, f.Code)
}

// Trailers are set behind the status.
func TestTrailersAreNotHeldBackWithTheStatus(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	srv := httptest.NewServer(Middleware(g, func(*http.Request) (string, error) { return "k", nil })(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("X-Sum", "7")
			_, _ = io.WriteString(w, "body")
		})))
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(srv.URL)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	_, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-Sum": {"7"}}, res.Trailer)
	assert.Empty(t, res.Header.Get("X-Sum"))
}
