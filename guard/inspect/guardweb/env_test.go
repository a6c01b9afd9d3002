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

func newEnv(t *testing.T, opts ...guard.Option) *env {
	t.Helper()
	t.Parallel()
	r := &env{T: t, client: redistest.Start(t).Client(t)}
	r.g = r.guard(opts...)
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

func hold(t *testing.T, g *guard.Guard, key string, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	lease, err := g.Acquire(t.Context(), guard.Key(key), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lease.Release(context.Background()) }) // it may be lost
	return lease
}

func (r *env) hold(key string, opts ...guard.LockOption) *guard.Lease {
	r.Helper()
	return hold(r.T, r.g, key, opts...)
}

// queue starts callers that wait for a key, each of its own Guard or all of the env's, and returns when they wait.
func (r *env) queue(key string, n int, here bool) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	for range n {
		g := r.g
		if !here {
			g = r.guard()
		}
		go func() {
			_ = g.WithLock(ctx, guard.Key(key), func(context.Context) error { return nil })
			done <- struct{}{}
		}()
	}
	r.Cleanup(func() {
		cancel()
		for range n {
			<-done
		}
	})
	require.Eventually(r, func() bool {
		if here {
			return r.g.Holds()[0].Waiting == n
		}
		return r.client.ZCard(r.Context(), "redlatch:{"+key+"}:queue").Val() == int64(n)
	}, patience, time.Millisecond)
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

// post sends a form: a key, a fence, and a state unless it is "".
func (p page) post(target, key string, fence any, state string, change ...func(*http.Request)) answer {
	form := url.Values{"key": {key}, "fence": {fmt.Sprint(fence)}}
	if state != "" {
		form.Set("state", state)
	}
	r := httptest.NewRequestWithContext(p.Context(), http.MethodPost, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range change {
		c(r)
	}
	return p.ask(r)
}

func (p page) codes(want map[string]int) {
	p.Helper()
	for target, code := range want {
		assert.Equal(p, code, p.get(target).code, target)
	}
}

func with(header, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(header, value) }
}

func text(fence uint64) string { return strconv.FormatUint(fence, 10) }
