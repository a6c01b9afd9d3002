package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// worker is the owner of recorded work. All but its first 8 digits are a secret.
const worker = "0123456789abcdef-1"

// work is what guard.Once sends for a key.
type work struct {
	*env

	store guardstore.Store
	key   string
	fence uint64
}

// newWork begins work whose record lives for an hour.
func newWork(r *env, key string) *work {
	r.Helper()
	w := &work{env: r, store: testenv.RedisStore(r.T, r.rdb, "redlatch"), key: key}
	reply, err := w.store.Acquire(r.Context(), guardstore.Claim{
		Key: key, Owner: worker, TTL: time.Minute, Metadata: "request 7", Once: &guardstore.Once{Keep: time.Hour},
	})
	require.NoError(r, err)
	require.Equal(r, guardstore.ClaimHeld, reply.Status)
	w.fence = reply.Fence
	return w
}

func (w *work) release(o *guardstore.Outcome) {
	w.Helper()
	reply, err := w.store.Release(w.Context(), guardstore.Release{Key: w.key, Owner: worker, Fence: w.fence, TTL: time.Minute, Record: o})
	require.NoError(w, err)
	require.Equal(w, guardstore.ReleaseDone, reply.Status)
}

func (w *work) done(result string) { w.finish(guardstore.RecordDone, result) }

func (w *work) finish(state guardstore.RecordState, result string) {
	w.Helper()
	w.release(&guardstore.Outcome{Once: guardstore.Once{Keep: time.Hour}, State: state, Result: []byte(result), Holder: "request 7"})
}

func TestRecord_GetShowsTheRecord(t *testing.T) {
	onEachRedis(t, func(r *env) {
		const secret = "secret 1 done\x00\xff\n}"
		for name, test := range map[string]struct {
			end   func(w *work)
			state inspect.RecordState
			size  int
		}{
			"in progress":     {func(*work) {}, inspect.RecordInProgress, 0},
			"released":        {func(w *work) { w.release(nil) }, inspect.RecordUnfinished, 0},
			"the lease ended": {func(w *work) { r.rdb.Del(r.Context(), "redlatch:{"+w.key+"}") }, inspect.RecordUnfinished, 0},
			"done":            {func(w *work) { w.done(secret) }, inspect.RecordDone, len(secret)},
			"without a text":  {func(w *work) { w.done("") }, inspect.RecordDone, 0},
			"large":           {func(w *work) { w.done(strings.Repeat(secret, 10_000)) }, inspect.RecordDone, 10_000 * len(secret)},
			"not kept":        {func(w *work) { w.finish(guardstore.RecordNotKept, "") }, inspect.RecordNotKept, 0},
		} {
			w := newWork(r, name)
			test.end(w)
			info := r.get(name)
			require.NotNil(r, info.Record, name)
			got := *info.Record
			assert.WithinDuration(r, info.Now, got.Since, patience, name)
			assert.False(r, got.Since.After(info.Now), name)
			assert.Greater(r, got.Left, time.Hour-patience, name)
			assert.LessOrEqual(r, got.Left, time.Hour+time.Minute, name) // after the lease of a minute
			text := fmt.Sprintf("%+v %+v", info, got)
			assert.NotContains(r, text, "secret", name)
			assert.NotContains(r, text, worker, "owners are secrets")
			got.Since, got.Left = time.Time{}, 0
			assert.Equal(r, inspect.Record{State: test.state, Size: test.size, Fence: w.fence, Instance: "01234567", Metadata: "request 7"}, got, name)
			assert.Equal(r, test.state == inspect.RecordInProgress, len(info.Holders) == 1, name)
		}
		assert.Nil(r, r.get("none").Record)
		require.NoError(r, r.rdb.Set(r.Context(), "redlatch:instance:0123456789abcdef", "web-1", time.Minute).Err())
		assert.Equal(r, "web-1", r.get("done").Record.Instance)
	})
}

func TestRecord_ForgetDeletesTheRecord(t *testing.T) {
	onEachRedis(t, func(r *env) {
		for name, end := range map[string]func(w *work){
			"unfinished": func(w *work) { w.release(nil) },
			"done":       func(w *work) { w.done("result") },
			"not kept":   func(w *work) { w.finish(guardstore.RecordNotKept, "") },
		} {
			w := newWork(r, name)
			there, err := r.Forget(r.Context(), name)
			require.ErrorIs(r, err, inspect.ErrInProgress)
			assert.False(r, there)
			assert.Equal(r, inspect.RecordInProgress, r.get(name).Record.State)
			end(w)
			for _, want := range []bool{true, false} {
				there, err := r.Forget(r.Context(), name)
				require.NoError(r, err)
				assert.Equal(r, want, there, name)
			}
			assert.Nil(r, r.get(name).Record, name)
		}
	})
}
