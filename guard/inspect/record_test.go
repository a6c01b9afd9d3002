package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

// worker is the owner of recorded work. All but its first 8 digits are a secret.
const worker = "0123456789abcdef-1"

// work is what guard.Once sends for a key.
type work struct {
	t     *testing.T
	store guardstore.Store
	key   string
	fence uint64
}

// newWork begins work whose record lives for an hour.
func newWork(t *testing.T, rdb redis.UniversalClient, key string) *work {
	t.Helper()
	w := &work{t: t, store: testenv.RedisStore(t, rdb, "guard"), key: key}
	r, err := w.store.Acquire(t.Context(), guardstore.Claim{
		Key: key, Owner: worker, TTL: time.Minute, Metadata: "request 7", Once: &guardstore.Once{Keep: time.Hour},
	})
	require.NoError(t, err)
	require.Equal(t, guardstore.ClaimHeld, r.Status)
	w.fence = r.Fence
	return w
}

func (w *work) release(o *guardstore.Outcome) {
	w.t.Helper()
	r, err := w.store.Release(w.t.Context(), guardstore.Release{Key: w.key, Owner: worker, Fence: w.fence, TTL: time.Minute, Record: o})
	require.NoError(w.t, err)
	require.Equal(w.t, guardstore.ReleaseDone, r.Status)
}

func (w *work) done(result string) { w.ends(guardstore.RecordDone, result) }

func (w *work) ends(state guardstore.RecordState, result string) {
	w.t.Helper()
	w.release(&guardstore.Outcome{Once: guardstore.Once{Keep: time.Hour}, State: state, Result: []byte(result), Holder: "request 7"})
}

// onEachRedis runs a test on the embedded Redis and on a real one.
func onEachRedis(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, guardtest.NewRedis(t)) })
	t.Run("real", func(t *testing.T) { t.Parallel(); test(t, redistest.Start(t).Client(t)) })
}

func TestRecord_GetShowsTheRecord(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		i := inspect.New(rdb)
		const secret = "secret 1 done\x00\xff\n}"
		for name, test := range map[string]struct {
			end   func(w *work)
			state inspect.RecordState
			size  int
		}{
			"in progress":     {func(*work) {}, inspect.RecordInProgress, 0},
			"released":        {func(w *work) { w.release(nil) }, inspect.RecordUnfinished, 0},
			"the lease ended": {func(w *work) { rdb.Del(t.Context(), "guard:{"+w.key+"}") }, inspect.RecordUnfinished, 0},
			"done":            {func(w *work) { w.done(secret) }, inspect.RecordDone, len(secret)},
			"without a text":  {func(w *work) { w.done("") }, inspect.RecordDone, 0},
			"large":           {func(w *work) { w.done(strings.Repeat(secret, 10_000)) }, inspect.RecordDone, 10_000 * len(secret)},
			"not kept":        {func(w *work) { w.ends(guardstore.RecordNotKept, "") }, inspect.RecordNotKept, 0},
		} {
			w := newWork(t, rdb, name)
			test.end(w)
			info, err := i.Get(t.Context(), name)
			require.NoError(t, err, name)
			require.NotNil(t, info.Record, name)
			r := *info.Record
			assert.Equal(t, test.state, r.State, name)
			assert.Equal(t, test.size, r.Size, name)
			assert.Equal(t, w.fence, r.Fence, name)
			assert.Equal(t, "01234567", r.Instance, name)
			assert.Equal(t, "request 7", r.Metadata, name)
			assert.WithinDuration(t, info.Now, r.Since, patience, name)
			assert.False(t, r.Since.After(info.Now), name)
			assert.Greater(t, r.Left, time.Hour-patience, name)
			assert.LessOrEqual(t, r.Left, time.Hour, name)
			text := fmt.Sprintf("%+v %+v", info, r)
			assert.NotContains(t, text, "secret", name)
			assert.NotContains(t, text, worker, "owners are secrets")
			assert.Equal(t, test.state == inspect.RecordInProgress, len(info.Holders) == 1, name)
		}
		info, err := i.Get(t.Context(), "none")
		require.NoError(t, err)
		assert.Nil(t, info.Record)
	})
}

// Who works is seen by the name of the instance, if Redis knows it.
func TestRecord_TheRecordNamesItsInstance(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	newWork(t, rdb, "k").done("")
	require.NoError(t, rdb.Set(t.Context(), "guard:instance:0123456789abcdef", "web-1", time.Minute).Err())
	info, err := inspect.New(rdb).Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "web-1", info.Record.Instance)
}

// Another holder of the key is not at the work of the record.
func TestRecord_TheRecordOfAnotherHolderIsNotInProgress(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		newWork(t, rdb, "k").release(nil)
		h := hold(t, guardOn(t, rdb), "k")
		i := inspect.New(rdb)
		for info, err := range i.All(t.Context(), "") {
			require.NoError(t, err)
			require.Len(t, info.Holders, 1)
			require.NotNil(t, info.Record, "a lock is listed with its record")
			assert.Equal(t, inspect.RecordUnfinished, info.Record.State)
		}
		forgot(t, i, "k", true)
		close(h.finish)
		require.NoError(t, <-h.result)
	})
}

func forgot(t *testing.T, i *inspect.Inspector, key string, want bool) {
	t.Helper()
	got, err := i.Forget(t.Context(), key)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestRecord_ForgetDeletesTheRecord(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		i := inspect.New(rdb)
		for name, end := range map[string]func(w *work){
			"unfinished": func(w *work) { w.release(nil) },
			"done":       func(w *work) { w.done("result") },
			"not kept":   func(w *work) { w.ends(guardstore.RecordNotKept, "") },
		} {
			end(newWork(t, rdb, name))
			forgot(t, i, name, true)
			forgot(t, i, name, false)
			info, err := i.Get(t.Context(), name)
			require.NoError(t, err)
			assert.Nil(t, info.Record, name)
			assert.NotZero(t, info.LastFence, "the lock stays as it is")
		}
	})
}

func TestRecord_ARecordInProgressIsNotForgotten(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		i, w := inspect.New(rdb), newWork(t, rdb, "k")
		there, err := i.Forget(t.Context(), "k")
		require.ErrorIs(t, err, inspect.ErrInProgress)
		assert.False(t, there)
		info, err := i.Get(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, inspect.RecordInProgress, info.Record.State)
		w.done("result")
		forgot(t, i, "k", true)
	})
}

// The key is kept, and nobody is at the work any more.
func TestRecord_TheRecordOfAKeyThatIsKeptIsNotInProgress(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		newWork(t, rdb, "k")
		require.NoError(t, rdb.HSet(t.Context(), "guard:{k}", worker, "0 7 0 - ").Err())
		i := inspect.New(rdb)
		info, err := i.Get(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, inspect.RecordUnfinished, info.Record.State)
		forgot(t, i, "k", true)
	})
}

// What is wrong with one record is an error of its key alone.
func TestRecord_WhatIsNoRecord(t *testing.T) {
	onEachRedis(t, func(t *testing.T, rdb *redis.Client) {
		i, ctx := inspect.New(rdb), t.Context()
		require.NoError(t, rdb.RPush(ctx, "guard:{list}:once", "secret").Err())
		for key, text := range map[string]string{
			"empty": "", "text": "secret", "version": "2 done 7 0 " + worker + " - 9 0 secret", "state": "1 secret 7 0 " + worker + " - 9 0 ",
			"fence": "1 done 0 0 " + worker + " - 9 0 secret", "owner": "1 done 7 0 secret - 9 0 ", "cut": "1 done 7 0 " + worker + " - 9 99 secret",
		} {
			require.NoError(t, rdb.Set(ctx, "guard:{"+key+"}:once", text, 0).Err())
		}
		require.NoError(t, rdb.Set(ctx, "guard:{for ever}:once", "1 done 7 0 "+worker+" - 9 1 ab", 0).Err())
		keys := []string{"list", "empty", "text", "version", "state", "fence", "owner", "cut"}
		for _, key := range keys {
			require.NoError(t, rdb.HSet(ctx, "guard:{"+key+"}", worker, "1 7 0 - ").Err())
			_, err := i.Get(ctx, key)
			var format *inspect.FormatError
			require.ErrorAs(t, err, &format, key)
			assert.Equal(t, key, format.Key)
			assert.NotContains(t, err.Error(), "secret", key)
		}
		require.NoError(t, rdb.HSet(ctx, "guard:{good}", worker, "1 7 0 - ").Err())
		var good, bad []string
		for info, err := range i.All(ctx, "") {
			if err == nil {
				good = append(good, info.Key)
				continue
			}
			require.ErrorIs(t, err, inspect.ErrFormat)
			bad = append(bad, info.Key)
		}
		assert.Equal(t, []string{"good"}, good)
		assert.ElementsMatch(t, keys, bad)

		_, err := i.Forget(ctx, "list")
		require.ErrorIs(t, err, inspect.ErrFormat)
		assert.Equal(t, "list", rdb.Type(ctx, "guard:{list}:once").Val())
		info, err := i.Get(ctx, "for ever")
		require.NoError(t, err)
		assert.Zero(t, info.Record.Left)
		assert.Equal(t, 1, info.Record.Size)
		assert.Equal(t, "a", info.Record.Metadata)
	})
}
