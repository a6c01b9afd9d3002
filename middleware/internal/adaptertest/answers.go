package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// row is one line of the table of answers.
type row struct {
	name   string
	given  func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request
	status int
	code   string
	retry  bool // Retry-After is given
	ran    bool // the route's work was called
}

var errSecret = errors.New("secret")

type statusError struct{}

func (statusError) Error() string   { return "secret" }
func (statusError) StatusCode() int { return http.StatusNotFound }

// tellingError has something for clients.
type tellingError struct{ statusError }

func (tellingError) Detail() string { return "There is no such order." }

var rows = []row{
	{"busy, not waited for", func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.hold(t, "order:7")
		s.Options = []guard.LockOption{guard.NoWait()}
		return r
	}, 409, "lock_busy", true, false},
	{"busy, own status", func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.hold(t, "order:7")
		s.Options, s.BusyStatus = []guard.LockOption{guard.NoWait()}, 423
		return r
	}, 423, "lock_busy", true, false},
	{"busy, waited for", func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.hold(t, "order:7")
		s.Options = []guard.LockOption{guard.Wait(10 * time.Millisecond)}
		return r
	}, 409, "lock_wait_timeout", true, false},
	{"over its limit", func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.hold(t, "order:7", guard.Limit(2))
		b.hold(t, "order:7", guard.Limit(2))
		s.Options = []guard.LockOption{guard.Limit(2), guard.NoWait()}
		return r
	}, 409, "lock_busy", true, false},
	{"within its limit", func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.hold(t, "order:7", guard.Limit(2))
		s.Options = []guard.LockOption{guard.Limit(2), guard.NoWait()}
		return r
	}, 200, "", false, true},
	{"request's deadline", func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.hold(t, "order:7")
		s.Options = []guard.LockOption{guard.Wait(guard.Forever)}
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return r.WithContext(ctx)
	}, 503, "deadline_exceeded", true, false},
	{"store down", func(_ *testing.T, b *bench, _ *Setup, r *http.Request) *http.Request {
		b.store.Fail(errSecret)
		return r
	}, 503, "lock_store_unavailable", true, false},
	{"store down, fail open", func(_ *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.store.Fail(errSecret)
		s.Options = []guard.LockOption{guard.FailOpen()}
		s.Work = func(_ http.ResponseWriter, r *http.Request) {
			if _, held := guard.Held(r.Context(), "order:7"); held {
				panic("there is no lock to hold")
			}
		}
		return r
	}, 200, "", false, true},
	{"guard closed", func(t *testing.T, b *bench, _ *Setup, r *http.Request) *http.Request {
		require.NoError(t, b.Close())
		return r
	}, 503, "shutting_down", true, false},
	{"lost, nothing written", func(_ *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		s.Work = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/csv")
			w.Header().Set("Content-Length", "1000")
			b.lose(r.Context(), "order:7")
		}
		return r
	}, 500, "lock_lost", false, true},
	{"client gone while waiting", func(t *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		b.hold(t, "order:7")
		s.Options = []guard.LockOption{guard.Wait(guard.Forever)}
		ctx, cancel := context.WithCancel(r.Context())
		go func() { <-b.waits.begun; cancel() }()
		return r.WithContext(ctx)
	}, 499, "", false, false},
	{"lost, and the handler failed", func(_ *testing.T, b *bench, s *Setup, r *http.Request) *http.Request {
		s.Fail = context.Canceled // as one that heeds its context does
		s.Work = func(_ http.ResponseWriter, r *http.Request) { b.lose(r.Context(), "order:7") }
		return r
	}, 500, "lock_lost", false, true},
	{"value missing", func(_ *testing.T, _ *bench, s *Setup, r *http.Request) *http.Request {
		s.Template = "tenant:{header:X-Tenant}:order:{id}"
		return r
	}, 400, "lock_key_invalid", false, false},
	{"own key function", func(_ *testing.T, _ *bench, s *Setup, r *http.Request) *http.Request {
		s.Key = func() (string, error) { return "", errSecret }
		return r
	}, 500, "lock_key_invalid", false, false},
	{"own key function with a status", func(_ *testing.T, _ *bench, s *Setup, r *http.Request) *http.Request {
		s.Key = func() (string, error) { return "", statusError{} }
		return r
	}, 404, "lock_key_invalid", false, false},
	{"own key function that panics", func(_ *testing.T, _ *bench, s *Setup, r *http.Request) *http.Request {
		s.Key = func() (string, error) { panic(errSecret) }
		return r
	}, 500, "lock_key_invalid", false, false},
	{"template does not fit", func(_ *testing.T, _ *bench, s *Setup, r *http.Request) *http.Request {
		s.Template = "order:{order}"
		return r
	}, 500, "lock_key_invalid", false, false},
	{"no guard", func(_ *testing.T, _ *bench, s *Setup, r *http.Request) *http.Request {
		s.Guard = nil
		return r
	}, 500, "no_guard", false, false},
}

func answers(t *testing.T, build Build) {
	for _, row := range rows {
		for _, method := range []string{http.MethodPost, http.MethodHead} {
			t.Run(row.name+"/"+method, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				s := Setup{Guard: b.Guard, Template: "order:{id}", Work: func(http.ResponseWriter, *http.Request) {}}
				r := pay("7")
				r.Method = method
				r = row.given(t, b, &s, r)
				ran, does := false, s.Work
				s.Work = func(w http.ResponseWriter, r *http.Request) { ran = true; does(w, r) }

				h, refused := built(t, build, s)
				if refused {
					return
				}
				rec := serve(h, r)

				assert.Equal(t, row.ran, ran, "whether the work ran")
				assert.Equal(t, row.status, rec.Code)
				row.checkHeader(t, rec.Header(), method)
				row.checkBody(t, rec.Body, method)
			})
		}
	}
	t.Run("own key function with a detail", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		key := func() (string, error) { return "", fmt.Errorf("secret: %w", tellingError{}) }
		rec := serve(build(t, Setup{Guard: b.Guard, Template: "order:{id}", Key: key, Work: ShowKey}), pay("7"))
		assert.Equal(t, http.StatusNotFound, rec.Code)
		assert.Contains(t, rec.Body.String(), `"detail":"There is no such order."`)
		assert.NotContains(t, rec.Body.String(), "secret")
	})
}

// built gives what build makes of s. A table may refuse a template that does not fit its
// row, and then nobody has to be answered.
func built(t *testing.T, build Build, s Setup) (h http.Handler, refused bool) {
	t.Helper()
	why := panicText(func() { h = build(t, s) })
	if h == nil {
		assert.Equal(t, "order:{order}", s.Template, why)
		assert.Contains(t, why, "the route has no such path value")
	}
	return h, h == nil
}

func (row row) checkHeader(t *testing.T, h http.Header, method string) {
	t.Helper()
	if row.code == "" {
		assert.Empty(t, h)
		return
	}
	assert.Equal(t, "no-store", h.Get("Cache-Control"))
	assert.Empty(t, h.Get("Content-Length"))
	if method != http.MethodHead {
		assert.Equal(t, "application/problem+json", h.Get("Content-Type"))
	}
	if row.retry {
		assert.Regexp(t, `^[1-9][0-9]*$`, h.Get("Retry-After"))
	} else {
		assert.Empty(t, h.Get("Retry-After"))
	}
}

func (row row) checkBody(t *testing.T, body io.Reader, method string) {
	t.Helper()
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	if row.code == "" || method == http.MethodHead {
		assert.Empty(t, string(text))
		return
	}
	for _, private := range []string{"secret", "order:7", "guard:"} {
		assert.NotContains(t, string(text), private)
	}
	var problem struct {
		Type, Title, Detail, Code string
		Status                    int
		RetryAfter                int `json:"retry_after"`
	}
	require.NoError(t, json.Unmarshal(text, &problem), string(text))
	assert.Equal(t, "https://pkg.go.dev/github.com/redlatch/redlatch/middleware/nethttp#"+row.code, problem.Type)
	assert.Equal(t, row.code, problem.Code)
	assert.Equal(t, row.status, problem.Status)
	assert.Equal(t, row.retry, problem.RetryAfter >= 1)
	assert.NotEmpty(t, problem.Title)
	assert.NotEmpty(t, problem.Detail)
}
