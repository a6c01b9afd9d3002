package adaptertest

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// rules checks what a Rule refuses, and how it names its locks.
func rules(t *testing.T, build Build) {
	g := guardtest.NewMemoryGuard(t)
	nothing := func(http.ResponseWriter, *http.Request) {}
	for want, s := range map[string]Setup{
		"guard: TTL":     {Template: "a", Options: []guard.LockOption{guard.TTL(1)}},
		"BusyStatus 200": {Template: "a", BusyStatus: 200},
		"column 7":       {Template: "order:{id"},
		"no KeyFunc":     {},
	} {
		s.Guard, s.Work = g, nothing
		assert.Contains(t, panicText(func() { build(t, s) }), want)
	}
	recorder := &guardtest.Recorder{}
	g = guardtest.NewMemoryGuard(t, guard.Observe(recorder), guard.Name("of the guard"))
	for _, opts := range [][]guard.LockOption{nil, {guard.Name("own")}} {
		serve(build(t, Setup{Guard: g, Template: "order:{id}", Options: opts, Work: nothing}), pay("7"))
	}
	seen := recorder.Observations("WaitStart")
	require.Len(t, seen, 2)
	assert.Regexp(t, `^POST /orders/(:id|\{id\})/pay$`, seen[0].Lock.Name)
	assert.Equal(t, "own", seen[1].Lock.Name)

	t.Run("a wait of two seconds by default", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := build(t, Setup{Guard: Busy(t), Template: "order:{id}", Work: nothing})
			start := time.Now()
			assert.Equal(t, http.StatusConflict, serve(h, pay("7")).Code)
			assert.InDelta(t, 2*time.Second, time.Since(start), float64(10*time.Millisecond))
		})
	})
}

// onError checks that the program's OnError gets guard's errors and no other, and can answer as the adapter does.
func onError(t *testing.T, build Build) {
	var got error
	calls := 0
	s := Setup{
		Guard: Busy(t), Template: "order:{id}", Options: []guard.LockOption{guard.NoWait()}, BusyStatus: http.StatusLocked,
		Work: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, OnError: func(err error) { got = err; calls++ },
	}
	rec := serve(build(t, s), pay("7"))
	assert.Equal(t, http.StatusLocked, rec.Code)
	assert.NotEmpty(t, rec.Header().Get("Retry-After"))
	var busy *guard.BusyError
	assert.ErrorAs(t, got, &busy)

	s.Fail = errOwn
	assert.Equal(t, http.StatusTeapot, serve(build(t, s), pay("8")).Code)
	assert.Equal(t, 1, calls)
}

// inCode checks what a handler answers for a lock that it takes itself.
func inCode(t *testing.T, build Build) {
	g := Busy(t)
	for key, want := range map[string]int{"order:7": http.StatusTooManyRequests, "order:8": http.StatusOK} {
		rec := serve(build(t, Setup{
			Guard: g, Template: "stock", BusyStatus: http.StatusTooManyRequests, Work: func(http.ResponseWriter, *http.Request) {},
			InCode: func(ctx context.Context) error {
				return guard.WithLock(ctx, guard.Key(key), func(context.Context) error { return nil }, guard.NoWait())
			},
		}), pay("1"))
		assert.Equal(t, want, rec.Code)
		assert.Equal(t, want != http.StatusOK, rec.Header().Get("Retry-After") != "")
		assert.Equal(t, want != http.StatusOK, strings.Contains(rec.Body.String(), "lock_busy"))
	}
}
