package adaptertest

import (
	"context"
	"encoding/json"
	"errors"
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
	given  given
	status int
	code   string
	retry  bool // Retry-After is given
	ran    bool // the route's work was called
}

// given makes the circumstances of a request.
type given func(c *circumstances)

type circumstances struct {
	t *testing.T
	b *Bench
	s *Setup
	r *http.Request
}

// held has the lock busy.
func held(opts ...guard.LockOption) given {
	return func(c *circumstances) {
		c.b.Hold(c.t, "order:7")
		c.s.Options = append(c.s.Options, opts...)
	}
}

func down(c *circumstances) { c.b.Store.Fail(errSecret) }

func lose(c *circumstances) {
	c.s.Work = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/csv")
		w.Header().Set("Content-Length", "1000")
		c.b.Lose(r.Context(), "order:7")
	}
}

// keyed has a key function that fails with err, or panics.
func keyed(err error, panics bool) given {
	return func(c *circumstances) {
		c.s.Key = func() (string, error) {
			if panics {
				panic(err)
			}
			return "", err
		}
	}
}

func template(text string) given { return func(c *circumstances) { c.s.Template = text } }

func unguarded(c *circumstances) { c.s.Guard = nil }

var errSecret = errors.New("secret")

type statusError struct{}

func (statusError) Error() string   { return "secret" }
func (statusError) StatusCode() int { return http.StatusNotFound }

var rows = []row{
	{"busy, not waited for", held(guard.NoWait()), 409, "lock_busy", true, false},
	{"busy, own status", func(c *circumstances) {
		held(guard.NoWait())(c)
		c.s.BusyStatus = 423
	}, 423, "lock_busy", true, false},
	{"another key of the rule is busy", func(c *circumstances) {
		c.b.Hold(c.t, "stock:7")
		c.s.And, c.s.Options = []string{"stock:{id}"}, []guard.LockOption{guard.NoWait()}
	}, 409, "lock_busy", true, false},
	{"busy, waited for", held(guard.Wait(10 * time.Millisecond)), 409, "lock_wait_timeout", true, false},
	{"over its limit", func(c *circumstances) {
		c.b.Hold(c.t, "order:7", guard.Limit(1))
		c.s.Options = []guard.LockOption{guard.Limit(1), guard.NoWait()}
	}, 409, "lock_busy", true, false},
	{"request's deadline", func(c *circumstances) {
		held(guard.Wait(guard.Forever))(c)
		ctx, cancel := context.WithTimeout(c.r.Context(), 20*time.Millisecond)
		c.t.Cleanup(cancel)
		c.r = c.r.WithContext(ctx)
	}, 503, "deadline_exceeded", true, false},
	{"store down", down, 503, "lock_store_unavailable", true, false},
	{"store down, fail open", func(c *circumstances) {
		down(c)
		c.s.Options = []guard.LockOption{guard.FailOpen()}
		c.s.Work = func(_ http.ResponseWriter, r *http.Request) {
			if _, held := guard.Held(r.Context(), guard.Key("order:7")); held {
				panic("there is no lock to hold")
			}
		}
	}, 200, "", false, true},
	{"guard closed", func(c *circumstances) { require.NoError(c.t, c.b.Close()) }, 503, "shutting_down", true, false},
	{"lost, nothing written", lose, 500, "lock_lost", false, true},
	{"lost, and the handler failed", func(c *circumstances) {
		lose(c)
		c.s.Fail = context.Canceled // as a handler that heeds its context does
	}, 500, "lock_lost", false, true},
	{"client gone while waiting", func(c *circumstances) {
		held(guard.Wait(guard.Forever))(c)
		ctx, cancel := context.WithCancel(c.r.Context())
		go func() { <-c.b.waits.begun; cancel() }()
		c.r = c.r.WithContext(ctx)
	}, 499, "", false, false},
	{"value missing", template("tenant:{header:X-Tenant}:order:{id}"), 400, "lock_key_invalid", false, false},
	{"own key function", keyed(errSecret, false), 500, "lock_key_invalid", false, false},
	{"own key function with a status", keyed(statusError{}, false), 404, "lock_key_invalid", false, false},
	{"own key function that panics", keyed(errSecret, true), 500, "lock_key_invalid", false, false},
	{"template does not fit", template("order:{order}"), 500, "lock_key_invalid", false, false},
	{"no guard", unguarded, 500, "no_guard", false, false},
}

func answers(t *testing.T, build Build) {
	for _, row := range rows {
		for _, method := range []string{http.MethodPost, http.MethodHead} {
			t.Run(row.name+"/"+method, func(t *testing.T) {
				t.Parallel()
				b := NewBench(t)
				s := Setup{Guard: b.Guard, Template: "order:{id}", Work: func(http.ResponseWriter, *http.Request) {}}
				c := &circumstances{t, b, &s, pay("7")}
				c.r.Method = method
				row.given(c)
				ran, does := false, s.Work
				s.Work = func(w http.ResponseWriter, r *http.Request) { ran = true; does(w, r) }

				h, refused := built(t, build, s)
				if refused {
					return
				}
				rec := serve(h, c.r)

				assert.Equal(t, row.ran, ran, "whether the work ran")
				assert.Equal(t, row.status, rec.Code)
				row.checkHeader(t, rec.Header(), method)
				row.checkBody(t, rec.Body, method)
			})
		}
	}
}

// built returns the server of s. A table refuses a template that does not fit its row: then there is no server.
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
	for _, private := range []string{"secret", "order:7", "guard:", "redlatch:"} {
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
