package guardhttp

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

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
		"upgrade behind": {
			func(w http.ResponseWriter, lose func()) { lose(); w.WriteHeader(http.StatusSwitchingProtocols) },
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

// A handler may give the lock back before it answers.
func TestReleaseByTheHandlerIsNoLoss(t *testing.T) {
	t.Parallel()
	g := guardtest.NewGuard(t)
	h := Middleware(g, func(*http.Request) (string, error) { return "k", nil })(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lease, _ := guard.FromContext(r.Context())
			assert.NoError(t, lease.Release(context.WithoutCancel(r.Context())))
			_, err := io.WriteString(w, "behind the lock")
			assert.NoError(t, err)
		}))
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", nil))
	assert.Equal(t, http.StatusOK, rec.Code)
	assert.Equal(t, "behind the lock", rec.Body.String())
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

// Informational answers reach the client while the handler still works.
func TestEarlyHintsAreNotHeldBack(t *testing.T) {
	t.Parallel()
	hinted := make(chan int)
	g := guardtest.NewGuard(t)
	srv := httptest.NewServer(Middleware(g, func(*http.Request) (string, error) { return "k", nil })(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			assert.Equal(t, http.StatusEarlyHints, <-hinted)
			w.WriteHeader(http.StatusNoContent)
		})))
	defer srv.Close()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hinted <- code; return nil },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	assert.Equal(t, http.StatusNoContent, res.StatusCode)
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
