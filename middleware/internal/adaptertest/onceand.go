package adaptertest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// onceAnd checks a Rule that keeps an answer by its first key, and locks the order while the handler runs.
func onceAnd(t *testing.T, build Build) {
	route := func(t *testing.T, work http.HandlerFunc) (*bench, *onceRoute) {
		b := newBench(t, guard.TTL(time.Second)) // so that the machine does not lose the key of Once, too
		return b, newOnceRoute(t, build, Setup{Guard: b.Guard, Work: work, And: []string{"order:{id}"}, Options: []guard.LockOption{guard.NoWait()}})
	}
	t.Run("both keys are held", func(t *testing.T) {
		t.Parallel()
		b, h := route(t, func(w http.ResponseWriter, r *http.Request) {
			for _, key := range []string{onceKey, "order:7"} {
				_, held := guard.Held(r.Context(), guard.Key(key))
				assert.True(t, held, key)
			}
			created(w, r)
		})
		first := serve(h, onceRequest("7 EUR"))
		b.hold(t, "order:7")
		assertReplay(t, first, serve(h, onceRequest("7 EUR"))) // which needs no lock of the order
		assert.EqualValues(t, 1, h.runs.Load())
	})
	t.Run("a busy order is no request in progress, and nothing is kept", func(t *testing.T) {
		t.Parallel()
		b, h := route(t, created)
		lease, err := b.Acquire(t.Context(), guard.Key("order:7"))
		require.NoError(t, err)
		assertProblem(t, serve(h, onceRequest("7 EUR")), http.StatusConflict, "lock_busy")
		assert.Zero(t, h.runs.Load())
		require.NoError(t, lease.Release(t.Context()))
		assert.Equal(t, http.StatusCreated, serve(h, onceRequest("7 EUR")).Code)
	})
	t.Run("an order that is lost under the handler is no success, and what it did is kept", func(t *testing.T) {
		t.Parallel()
		var b *bench
		b, h := route(t, func(w http.ResponseWriter, r *http.Request) {
			b.lose(r.Context(), "order:7")
			created(w, r)
		})
		assertProblem(t, serve(h, onceRequest("7 EUR")), http.StatusInternalServerError, "lock_lost")
		again := serve(h, onceRequest("7 EUR"))
		assert.Equal(t, http.StatusCreated, again.Code)
		assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
		assert.EqualValues(t, 1, h.runs.Load())
	})
	t.Run("the first key names the caller", func(t *testing.T) {
		t.Parallel()
		s := Setup{Template: "pay:{idempotency-key}", And: []string{"{header:X-Tenant}"}, Keep: time.Hour, Work: created}
		assert.Contains(t, panicText(func() { build(t, s) }), "the template names no caller")
	})
}

// onceMore checks what a program adds to what Once keeps and compares.
func onceMore(t *testing.T, build Build) {
	t.Run("more headers", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		h := newOnceRoute(t, build, Setup{Guard: b.Guard, Headers: []string{"x-payment", "Set-Cookie"}, Work: func(w http.ResponseWriter, _ *http.Request) {
			for _, name := range []string{"X-Payment", "Set-Cookie", "X-Own"} {
				w.Header().Set(name, "inner")
			}
		}})
		serve(h, onceRequest(""))
		again := serve(h, onceRequest("")).Header()
		assert.Equal(t, "inner", again.Get("X-Payment"))
		assert.Equal(t, "inner", again.Get("Set-Cookie"))
		assert.Empty(t, again.Get("X-Own"))
	})
	t.Run("an own fingerprint", func(t *testing.T) {
		t.Parallel()
		var failure error
		h := newOnceRoute(t, build, Setup{Guard: newBench(t).Guard, Work: created, Fingerprint: func(r *http.Request) ([]byte, error) {
			amount := make([]byte, 5)
			_, err := r.Body.Read(amount)
			assert.NoError(t, err)
			return amount, failure
		}})
		first := serve(h, onceRequest("7 EUR, sent at 10:00"))
		assert.Contains(t, first.Body.String(), "7 EUR, sent at 10:00", "the handler gets the whole body")
		assertReplay(t, first, serve(h, onceRequest("7 EUR, sent at 10:01")))
		assertProblem(t, serve(h, onceRequest("8 EUR, sent at 10:02")), http.StatusUnprocessableEntity, "idempotency_key_reused")
		other := httptest.NewRequest(http.MethodPost, "/orders/8/pay", strings.NewReader("7 EUR"))
		other.Header = onceRequest("").Header
		assert.Equal(t, http.StatusUnprocessableEntity, serve(h, other).Code, "the path counts all the same")
		failure = statusError{}
		assertProblem(t, serve(h, onceRequest("7 EUR")), http.StatusNotFound, "lock_key_invalid")
		assert.EqualValues(t, 1, h.runs.Load())
	})
	t.Run("an answer that the handler sent before it failed", func(t *testing.T) {
		t.Parallel()
		h := newOnceRoute(t, build, Setup{Guard: newBench(t).Guard, Work: created, Fail: errOwn})
		assertReplay(t, serve(h, onceRequest("7 EUR")), serve(h, onceRequest("7 EUR")))
		assert.EqualValues(t, 1, h.runs.Load())
	})
}
