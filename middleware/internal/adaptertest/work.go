package adaptertest

import (
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// work checks what the route sees, and that whatever it does frees the lock.
func work(t *testing.T, build Build) {
	t.Run("holds the lock and may take more", func(t *testing.T) {
		t.Parallel()
		g := guardtest.NewMemoryGuard(t)
		rec := serve(build(t, Setup{Guard: g, Template: "order:{id}", Work: func(w http.ResponseWriter, r *http.Request) {
			lease, ok := guard.Held(r.Context(), guard.Key("order:7"))
			assert.True(t, ok)
			assert.NoError(t, lease.Err())
			assert.NoError(t, guard.WithLock(r.Context(), guard.Key("stock"), func(context.Context) error { return nil }))
			w.WriteHeader(http.StatusCreated)
		}}), pay("7"))
		assert.Equal(t, http.StatusCreated, rec.Code)
		assertFree(t, g, "order:7")
	})
	t.Run("without a lock where skipped", func(t *testing.T) {
		t.Parallel()
		g := guardtest.NewMemoryGuard(t)
		rec := serve(build(t, Setup{Guard: g, Template: "order:{id}", Unlocked: true, Work: func(w http.ResponseWriter, r *http.Request) {
			_, ok := guard.Held(r.Context(), guard.Key("order:7"))
			assert.False(t, ok)
			assert.NoError(t, guard.WithLock(r.Context(), guard.Key("stock"), func(context.Context) error { return nil }))
			w.WriteHeader(http.StatusCreated)
		}}), pay("7"))
		assert.Equal(t, http.StatusCreated, rec.Code)
	})
	t.Run("leaves the server the form, whose files it deletes", func(t *testing.T) {
		t.Parallel()
		r := pay("7")
		serve(build(t, Setup{Guard: guardtest.NewMemoryGuard(t), Template: "order:{id}", Work: func(_ http.ResponseWriter, r *http.Request) {
			r.MultipartForm = new(multipart.Form)
		}}), r)
		assert.NotNil(t, r.MultipartForm)
	})
	t.Run("another key is not kept waiting", func(t *testing.T) {
		t.Parallel()
		var h http.Handler
		h = build(t, Setup{
			Guard: guardtest.NewMemoryGuard(t), Template: "order:{id}", Options: []guard.LockOption{guard.NoWait()},
			Work: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/orders/7/pay" {
					assert.Equal(t, http.StatusConflict, serve(h, pay("%37")).Code)
					w.WriteHeader(serve(h, pay("8")).Code)
					return
				}
				w.WriteHeader(http.StatusTeapot)
			},
		})
		assert.Equal(t, http.StatusTeapot, serve(h, pay("7")).Code)
	})
	t.Run("panics", func(t *testing.T) {
		t.Parallel()
		for _, value := range []any{http.ErrAbortHandler, errSecret, "text"} {
			g := guardtest.NewMemoryGuard(t)
			h := build(t, Setup{Guard: g, Template: "order:{id}", Work: func(http.ResponseWriter, *http.Request) { panic(value) }})
			func() {
				defer func() { assert.Equal(t, value, recover()) }()
				serve(h, pay("7"))
			}()
			assertFree(t, g, "order:7")
		}
	})
	t.Run("panics after a status, which was not sent", func(t *testing.T) {
		t.Parallel()
		h := build(t, Setup{Guard: guardtest.NewMemoryGuard(t), Template: "order:{id}", Work: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			panic("own")
		}})
		rec := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { assert.Equal(t, "own", recover()); w.WriteHeader(http.StatusInternalServerError) }()
			h.ServeHTTP(w, r)
		}), pay("7"))
		assert.Equal(t, http.StatusInternalServerError, rec.Code)
	})
	t.Run("gives its lock back before it answers", func(t *testing.T) {
		t.Parallel()
		h := build(t, Setup{Guard: guardtest.NewMemoryGuard(t), Template: "order:{id}", Work: func(w http.ResponseWriter, r *http.Request) {
			lease, _ := guard.FromContext(r.Context())
			assert.NoError(t, lease.Release(context.WithoutCancel(r.Context())))
			_, err := io.WriteString(w, "no loss")
			assert.NoError(t, err)
		}})
		assert.Equal(t, "no loss", serve(h, pay("7")).Body.String())
	})
	t.Run("ends with its client", func(t *testing.T) {
		t.Parallel()
		g := guardtest.NewMemoryGuard(t)
		ctx, leave := context.WithCancel(t.Context())
		h := build(t, Setup{Guard: g, Template: "order:{id}", Work: func(w http.ResponseWriter, r *http.Request) {
			leave()
			<-r.Context().Done()
			assert.ErrorIs(t, context.Cause(r.Context()), context.Canceled)
			_, err := io.WriteString(w, "no loss")
			assert.NoError(t, err)
		}})
		serve(h, pay("7").WithContext(ctx))
		assertFree(t, g, "order:7")
	})
	t.Run("exits its goroutine", func(t *testing.T) {
		t.Parallel()
		g := guardtest.NewMemoryGuard(t)
		h := build(t, Setup{Guard: g, Template: "order:{id}", Work: func(http.ResponseWriter, *http.Request) { runtime.Goexit() }})
		var wg sync.WaitGroup
		wg.Go(func() { serve(h, pay("7")) })
		wg.Wait()
		assertFree(t, g, "order:7")
	})
}

// exclusion has two servers, each with a Guard of its own, serve requests for one key at once.
func exclusion(t *testing.T, build Build) {
	const requests = 100
	store, paid := guardtest.NewStore(), 0 // counted under nothing but the lock
	var all sync.WaitGroup
	for range 2 {
		g, err := guard.NewWithStore(store)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		h := build(t, Setup{
			Guard: g, Template: "order:{id}", Options: []guard.LockOption{guard.Wait(time.Minute)},
			Work: func(w http.ResponseWriter, _ *http.Request) {
				before := paid
				runtime.Gosched()
				paid = before + 1
				w.WriteHeader(http.StatusNoContent)
			},
		})
		for range requests / 2 {
			all.Go(func() { assert.Equal(t, http.StatusNoContent, serve(h, pay("7")).Code) })
		}
	}
	all.Wait()
	assert.Equal(t, requests, paid)
}

func assertFree(t *testing.T, g *guard.Guard, key string) {
	t.Helper()
	lease, err := g.Acquire(context.Background(), guard.Key(key), guard.NoWait())
	if assert.NoError(t, err) {
		assert.NoError(t, lease.Release(context.Background()))
	}
}
