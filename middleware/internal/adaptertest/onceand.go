package adaptertest

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
)

// onceAnd checks a Rule that keeps an answer by its first key, and locks the order while the handler runs.
func onceAnd(t *testing.T, build Build) {
	route := func(t *testing.T, work http.HandlerFunc) (*Bench, *onceRoute) {
		b := NewBench(t, guard.TTL(time.Second)) // so that the machine does not lose the key of Once, too
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
		b.Hold(t, "order:7")
		assertReplay(t, first, serve(h, onceRequest("7 EUR"))) // which needs no lock of the order
		assert.EqualValues(t, 1, h.runs.Load())
	})
	t.Run("a busy order is no request in progress, and nothing is kept", func(t *testing.T) {
		t.Parallel()
		b, h := route(t, created)
		lease := b.Hold(t, "order:7")
		assertProblem(t, serve(h, onceRequest("7 EUR")), http.StatusConflict, "lock_busy")
		assert.Zero(t, h.runs.Load())
		require.NoError(t, lease.Release(t.Context()))
		assert.Equal(t, http.StatusCreated, serve(h, onceRequest("7 EUR")).Code)
	})
	t.Run("an order that is lost under the handler is no success, and what it did is kept", func(t *testing.T) {
		t.Parallel()
		var b *Bench
		b, h := route(t, func(w http.ResponseWriter, r *http.Request) {
			b.Lose(r.Context(), "order:7")
			created(w, r)
		})
		assertProblem(t, serve(h, onceRequest("7 EUR")), http.StatusInternalServerError, "lock_lost")
		again := serve(h, onceRequest("7 EUR"))
		assert.Equal(t, http.StatusCreated, again.Code)
		assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
		assert.EqualValues(t, 1, h.runs.Load())
	})
}
