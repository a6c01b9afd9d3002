package guardweb_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/inspect/guardweb"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

const patience = 20 * time.Second

// env is a Redis, a Guard on it, and an Inspector for pages.
type env struct {
	*testing.T

	client    *redis.Client
	g         *guard.Guard
	inspector *inspect.Inspector
}

func newEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	r := &env{T: t, client: redistest.Start(t).Client(t)}
	r.g = r.guard(guard.Instance("web-1"))
	r.inspector = inspect.New(r.client)
	return r
}

func (r *env) guard(opts ...guard.Option) *guard.Guard {
	r.Helper()
	g, err := guard.New(r.client, opts...)
	require.NoError(r, err)
	r.Cleanup(func() { assert.NoError(r, g.Close()) })
	return g
}

func (r *env) hold(key string, opts ...guard.LockOption) *guard.Lease {
	r.Helper()
	lease, err := r.g.Acquire(r.Context(), guard.Key(key), opts...)
	require.NoError(r, err)
	require.Eventually(r, func() bool { // a Guard announces its name beside its first lock
		return len(r.client.Keys(r.Context(), "redlatch:instance:*").Val()) > 0
	}, patience, time.Millisecond)
	r.Cleanup(func() { _ = lease.Release(context.Background()) }) // it may be lost
	return lease
}

func anyone(role guardweb.Role) guardweb.Option {
	return guardweb.Authorize(func(*http.Request) guardweb.Role { return role })
}

var acting = anyone(guardweb.Act)

// page returns a page that every request may read, unless opts say otherwise.
func (r *env) page(opts ...guardweb.Option) page {
	return page{r.T, guardweb.Handler(r.inspector, append([]guardweb.Option{anyone(guardweb.View)}, opts...)...)}
}

// page is a Handler.
type page struct {
	*testing.T
	http.Handler
}

type answer struct {
	code     int
	body     string
	location string
	header   http.Header
}

func (p page) ask(r *http.Request) answer {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return answer{w.Code, w.Body.String(), w.Header().Get("Location"), w.Header()}
}

func (p page) send(method, target string) answer {
	return p.ask(httptest.NewRequestWithContext(p.Context(), method, target, nil))
}

func (p page) get(target string) answer { return p.send(http.MethodGet, target) }

// says returns the body of a page that has texts.
func (p page) says(target string, texts ...string) string {
	p.Helper()
	a := p.get(target)
	require.Equal(p, 200, a.code, target)
	for _, text := range texts {
		assert.Contains(p, a.body, text, target)
	}
	return a.body
}

// post sends a form with a key, a fence and a state, and perhaps with a header and its value.
func (p page) post(target, key string, fence any, state string, header ...string) answer {
	form := url.Values{"key": {key}, "fence": {fmt.Sprint(fence)}, "state": {state}}
	r := httptest.NewRequestWithContext(p.Context(), http.MethodPost, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if len(header) > 0 {
		r.Header.Set(header[0], header[1])
	}
	return p.ask(r)
}

func (p page) codes(want map[string]int) {
	p.Helper()
	for target, code := range want {
		assert.Equal(p, code, p.get(target).code, target)
	}
}

func text(fence uint64) string { return strconv.FormatUint(fence, 10) }
