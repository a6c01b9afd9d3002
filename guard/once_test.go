package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/internal/redistest"
)

func gives[T any](v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return v, nil }
}

// noRun is work that is not to run.
func noRun[T any](t *testing.T) func(context.Context) (T, error) {
	return func(ctx context.Context) (none T, _ error) { return none, never(t)(ctx) }
}

// once runs Once on k.
func once[T any](g *env, fn func(context.Context) (T, error), opts ...guard.OnceOption) (v T, replayed bool, err error) {
	return guard.Once(g.t.Context(), g.Guard, k, time.Hour, fn, opts...)
}

// runs checks that Once runs its work, and gives the fence of an earlier beginning, also under another lock.
func (g *env) runs(v int, opts ...guard.OnceOption) (earlier uint64) {
	g.t.Helper()
	got, replayed, err := once(g, func(ctx context.Context) (int, error) {
		return v, g.WithLock(ctx, guard.Key("inner"), func(ctx context.Context) error {
			var ok bool
			earlier, ok = guard.Interrupted(ctx)
			assert.Equal(g.t, earlier > 0, ok)
			return nil
		})
	}, opts...)
	require.NoError(g.t, err)
	assert.False(g.t, replayed)
	assert.Equal(g.t, v, got)
	return earlier
}

// replays checks that Once gives a result without work.
func (g *env) replays(v int, opts ...guard.OnceOption) {
	g.t.Helper()
	got, replayed, err := once(g, noRun[int](g.t), opts...)
	require.NoError(g.t, err)
	assert.True(g.t, replayed)
	assert.Equal(g.t, v, got)
}

// refuses checks that Once neither runs nor replays.
func (g *env) refuses(want error, opts ...guard.OnceOption) {
	g.t.Helper()
	_ = g.refusal(want, opts...)
}

// refusal is the error of refuses.
func (g *env) refusal(want error, opts ...guard.OnceOption) error {
	g.t.Helper()
	_, replayed, err := once(g, noRun[int](g.t), opts...)
	require.ErrorIs(g.t, err, want)
	assert.False(g.t, replayed)
	return err
}

func TestOnce_AResultIsReplayed(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		assert.Zero(t, g.runs(1))
		asked, released := g.s.Calls("acquire"), g.s.Calls("release")
		for range 4 {
			g.replays(1)
		}
		assert.Equal(t, []int{asked + 4, released}, []int{g.s.Calls("acquire"), g.s.Calls("release")}, "a replay is one round trip")
		time.Sleep(time.Hour)
		assert.Zero(t, g.runs(2))
		g.free(g.take())
	})
}

// Forget says why it deletes nothing, and ends with its context and with Close.
func TestForget_ThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		fails := func(ctx context.Context, key guard.KeyFunc, want error) error {
			t.Helper()
			deleted, err := g.Forget(ctx, key)
			require.ErrorIs(t, err, want)
			assert.False(t, deleted)
			return err
		}
		_ = fails(t.Context(), guard.Key(""), guard.ErrKey)
		g.s.Fail(errDown)
		failure := as[*guard.StoreError](t, fails(t.Context(), k, guard.ErrStore))
		assert.Equal(t, []string{"forget", "", "k"}, []string{failure.Op, failure.Name, failure.Key})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		is(t, fails(ctx, k, context.DeadlineExceeded), context.DeadlineExceeded, guard.ErrStore)
		g.s.Fail(nil)
		g.runs(1)
		g.s.Trouble(only("forget", func(context.Context) error { return errDown }), nil)
		_ = fails(t.Context(), k, guard.ErrStore)
		g.s.Trouble(nil, nil)
		g.s.Fail(errDown)
		ended := begin(func() error { _, err := g.Forget(t.Context(), k); return err })
		require.NoError(t, g.Close())
		require.ErrorIs(t, <-ended, guard.ErrClosed)
		_ = fails(t.Context(), k, guard.ErrClosed)
	})
}

// Observers learn why Once did not run, and nothing of it where another call is refused.
func TestOnce_RefusalsAreEvents(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		other, input := g.another(), guard.Fingerprint([]byte("a"))
		forget := func() {
			_, err := other.Forget(t.Context(), k)
			require.NoError(t, err)
		}
		other.runs(1, input)
		g.replays(1, input)
		want := []guard.Event{{Kind: guard.EventReplayed, Op: "acquire"}}
		refused := func(kind guard.EventKind, why error, opts ...guard.OnceOption) {
			want = append(want, guard.Event{Kind: kind, Op: "acquire", Err: g.refusal(why, opts...)})
		}
		refused(guard.EventOtherInput, guard.ErrOtherInput, guard.Fingerprint([]byte("b")), guard.Name("pay"))
		assert.Equal(t, "pay", as[*guard.OnceError](t, want[1].Err).Name)
		forget()
		other.runs(10, guard.MaxResult(1))
		refused(guard.EventNotKept, guard.ErrNotKept)
		forget()
		other.leaves("loss", guard.AtMostOnce())
		refused(guard.EventUnknownOutcome, guard.ErrUnknownOutcome, guard.AtMostOnce())
		for _, o := range g.r.Observations("WaitEnd") {
			assert.Equal(t, guard.OutcomeRecorded, o.Wait.Outcome)
		}
		defer other.free(other.take())
		g.refuses(guard.ErrBusy, guard.NoWait())
		var seen []guard.Event
		for _, o := range g.r.Observations("Event") {
			seen = append(seen, o.Event)
		}
		assert.Equal(t, want, seen)
	})
}

// A result is as long as it is encoded. If it is too large, its caller has it all the same, and the event says why no other has.
func TestOnce_MaxResultAndEncodingCount(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		hash := guard.Encoding(
			func(v any) ([]byte, error) { return []byte(strings.Repeat("#", v.(int))), nil },
			func(data []byte, v any) error { *v.(*int) = len(data); return nil },
		)
		g.runs(64<<10, hash)
		g.replays(64<<10, hash)
		_, err := g.Forget(t.Context(), k)
		require.NoError(t, err)
		g.runs(64<<10+1, hash, guard.Name("hash"))
		event := as[*guard.OnceError](t, g.r.Events(guard.EventNotKept)[0].Err)
		_, fence := g.s.Last("k")
		g.refuses(guard.ErrNotKept, hash)
		assert.Equal(t, guard.OnceError{Name: "hash", Key: "k", Fence: fence, Err: event.Err}, *event)
		assert.Contains(t, event.Error(), "it has 65537 bytes, MaxResult is 65536")
		_, err = g.Forget(t.Context(), k)
		require.NoError(t, err)
		g.runs(7, hash, guard.MaxResult(6))
		g.refuses(guard.ErrNotKept, hash)
		require.NoError(t, errors.Join(checkOnce(time.Hour, guard.MaxResult(1)), checkOnce(time.Hour, guard.MaxResult(1<<20))))
	})
}

func TestOnce_InProgressIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		end := make(chan struct{})
		first := begin(func() error {
			_, _, err := once(g, func(context.Context) (int, error) { <-end; return 1, nil }, guard.Metadata("worker 7"))
			return err
		})
		for _, g := range []*env{g, g.another()} {
			for _, opt := range []guard.OnceOption{guard.NoWait(), guard.Wait(3 * time.Second)} {
				assert.Equal(t, "worker 7", as[*guard.BusyError](t, g.refusal(guard.ErrBusy, opt, guard.AtMostOnce())).Holder)
			}
			deleted, err := g.Forget(t.Context(), guard.Keyf("%s", "k"))
			require.ErrorIs(t, err, guard.ErrBusy, "work in progress is not forgotten")
			assert.False(t, deleted)
			busy := as[*guard.BusyError](t, err)
			assert.Equal(t, guard.BusyError{Name: "*", Key: "k", RetryAfter: time.Second}, *busy)
		}
		close(end)
		require.NoError(t, <-first)
	})
}

func TestOnce_WorkThatFailedRunsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		for _, opt := range []guard.OnceOption{nil, guard.AtMostOnce()} {
			_, replayed, err := once(g, func(context.Context) (int, error) { return -1, errBoom }, opt)
			assert.Same(t, errBoom, err)
			assert.False(t, replayed)
		}
		assert.Zero(t, g.runs(1, guard.AtMostOnce()))
	})
}

// unfinished are the ways in which it is not known how far the work came.
var unfinished = map[string]func(g *env, ctx context.Context, leave func()) (int, error){
	"panic":   func(*env, context.Context, func()) (int, error) { panic("boom") },
	"Goexit":  func(*env, context.Context, func()) (int, error) { runtime.Goexit(); return 1, nil },
	"context": func(_ *env, ctx context.Context, leave func()) (int, error) { leave(); return 0, ctx.Err() },
	"loss": func(g *env, ctx context.Context, _ func()) (int, error) {
		g.s.Drop("k")
		<-ctx.Done()
		return 0, ctx.Err()
	},
}

// leaves has a call of Once end unfinished. It returns the fence of the call.
func (g *env) leaves(how string, opts ...guard.OnceOption) (fence uint64) {
	ctx, leave := context.WithCancel(g.t.Context())
	defer leave()
	apart(func() {
		_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(ctx context.Context) (int, error) {
			fence, _ = guard.Fence(ctx)
			return unfinished[how](g, ctx, leave)
		}, opts...)
		assert.Error(g.t, err)
	})
	return fence
}

// The next call learns of unfinished work, under another lock, too. At most once, no call follows it until a person decides.
func TestOnce_TheCallAfterUnfinishedWorkLearnsOfIt(t *testing.T) {
	for how := range unfinished {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				other := g.another()
				assert.Equal(t, g.leaves(how), other.runs(1))
				_, err := g.Forget(t.Context(), k)
				require.NoError(t, err)
				fence := g.leaves(how, guard.AtMostOnce())
				for _, g := range []*env{g, other} {
					unknown := as[*guard.OnceError](t, g.refusal(guard.ErrUnknownOutcome, guard.AtMostOnce()))
					assert.Equal(t, guard.OnceError{Key: "k", Fence: fence, Err: guard.ErrUnknownOutcome}, *unknown)
				}
				for _, want := range []bool{true, false} {
					deleted, err := other.Forget(t.Context(), k)
					require.NoError(t, err)
					assert.Equal(t, want, deleted)
				}
				assert.Zero(t, g.runs(1, guard.AtMostOnce()))
			})
		})
	}
}

// Without Redis, FailOpen runs work without a lock: it has no record, and writes none for a lock around it.
func TestOnce_WithoutALockNothingIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("outer"), func(ctx context.Context) error {
			g.s.Fail(errDown)
			v, replayed, err := guard.Once(ctx, g.Guard, k, time.Hour, func(ctx context.Context) (int, error) {
				_, held := guard.Held(ctx, guard.Key("k"))
				_, ok := guard.Interrupted(ctx)
				assert.False(t, held || ok)
				return 7, nil
			}, guard.FailOpen())
			assert.Equal(t, 7, v)
			assert.False(t, replayed)
			g.s.Fail(nil)
			time.Sleep(time.Second) // it is known that there is an answer again
			return err
		}))
		assert.Len(t, g.r.Events(guard.EventFailedOpen), 1)
		_, replayed, err := guard.Once(t.Context(), g.Guard, guard.Key("outer"), time.Hour, gives(8))
		require.NoError(t, err)
		assert.False(t, replayed)
		assert.Zero(t, g.runs(8))
	})
}

// Redis is down when the work is done: the caller has the true result. Its release is repeated.
func TestOnce_RedisDownAfter(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		v, replayed, err := once(g, func(context.Context) (int, error) { g.s.Fail(errDown); return 7, nil }, guard.AtMostOnce())
		require.NoError(t, err)
		assert.True(t, v == 7 && !replayed)
		assert.NotEmpty(t, g.r.Events(guard.EventReleaseFailure))
		g.s.Fail(nil)
		time.Sleep(time.Second)
		g.replays(7, guard.AtMostOnce())
	})
}

// A result is kept before the caller has it, though the Guard's releases are not waited for, or ctx ended meanwhile.
func TestOnce_IsKeptBeforeItReturns(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		ctx, cancel := context.WithCancel(t.Context())
		v, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(context.Context) (int, error) { cancel(); return 7, nil }, guard.AsyncRelease())
		require.NoError(t, err)
		assert.Equal(t, 7, v)
		assert.Equal(t, 1, g.s.Calls("release"))
		g.replays(7)
	}, guard.AsyncRelease())
}

// Work that never began leaves no record: at most once, the next call runs. An Observer takes a second of the caller
// before the work, in which its context ends, or panics.
func TestOnce_ALateGrantNeverBegan(t *testing.T) {
	for _, fault := range []func(){func() { time.Sleep(time.Second) }, func() { panic("observer") }} {
		o := &faulty{method: "HoldStart", fault: fault}
		o.n.Store(1)
		bubble(t, func(t *testing.T, g *env) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			apart(func() {
				_, replayed, err := guard.Once(ctx, g.Guard, k, time.Hour, noRun[int](t), guard.AtMostOnce())
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.False(t, replayed)
			})
			assert.Zero(t, g.runs(1, guard.AtMostOnce()))
		}, guard.Observe(o))
	}
}

// An adapter gives a lock back that came too late. The end of the context does not make that an unknown outcome.
func TestOnce_WorkThatDidNotBegin(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(context.Context) (int, error) {
			cancel()
			return 0, guardhook.ErrNotBegun
		}, guard.AtMostOnce())
		assert.ErrorIs(t, err, guardhook.ErrNotBegun)
		assert.Zero(t, g.runs(1, guard.AtMostOnce()))
	})
}

func TestOnce_ItsWorkMayLockItsKeyAgain(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		_, _, err := once(g, func(ctx context.Context) (int, error) {
			return 7, g.WithLock(ctx, k, func(ctx context.Context) error {
				l, _ := guard.FromContext(ctx)
				return l.Check(ctx)
			}, guard.NoWait())
		})
		require.NoError(t, err)
		g.replays(7)
	})
}

func TestOnce_BadArguments(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		noRecords := testenv.GuardOnStore(t, struct{ guardstore.Store }{g.s})
		deleted, forget := noRecords.Forget(t.Context(), k)
		assert.False(t, deleted)
		try := func(g *guard.Guard, keep time.Duration, fn func(context.Context) (int, error), opts ...guard.OnceOption) error {
			_, replayed, err := guard.Once(t.Context(), g, k, keep, fn, opts...)
			assert.False(t, replayed)
			return err
		}
		never := noRun[int](t)
		for want, err := range map[string]error{
			"keep 0s is outside 1ms to 8784h0m0s":         try(g.Guard, 0, never),
			"fn is nil":                                   try(g.Guard, time.Hour, nil),
			"Limit does not go with Once":                 try(g.Guard, time.Hour, never, guard.Limit(2)),
			"Once needs one Redis, Sentinel or Cluster":   try(noRecords, time.Hour, never),
			"Forget needs one Redis, Sentinel or Cluster": forget,
			"keep 999.999µs is outside 1ms to 8784h0m0s":  checkOnce(time.Millisecond - 1),
			"keep 8784h0m0.000000001s is outside":         checkOnce(366*24*time.Hour + 1),
			"MaxResult 0 bytes is outside 1 to 1048576":   checkOnce(time.Hour, guard.MaxResult(0)),
			"MaxResult 1048577 bytes is outside":          checkOnce(time.Hour, guard.MaxResult(1<<20+1)),
			"Encoding needs two functions, one is nil":    checkOnce(time.Hour, guard.Encoding(json.Marshal, nil)),
			"Encoding needs two functions, one":           checkOnce(time.Hour, guard.Encoding(nil, json.Unmarshal)),
			"TTL 0s is outside":                           checkOnce(time.Hour, guard.TTL(0)),
			"Limit does not go with":                      checkOnce(time.Hour, guard.Limit(2)),
			"Shared does not go with":                     checkOnce(time.Hour, guard.Shared()),
			"FailOpen does not go with AtMostOnce":        checkOnce(time.Hour, guard.FailOpen(), guard.AtMostOnce()),
		} {
			require.ErrorIs(t, err, guard.ErrOption, want)
			assert.ErrorContains(t, err, want)
		}
		require.NoError(t, errors.Join(checkOnce(time.Millisecond), checkOnce(366*24*time.Hour)))
		require.NoError(t, checkOnce(time.Hour, nil, guard.AtMostOnce(), guard.TTL(time.Second)))
		require.ErrorIs(t, try(nil, time.Hour, never), guard.ErrNoGuard)
		v, _, err := guard.Once(guard.WithGuard(t.Context(), g.Guard), nil, guard.Key("of ctx"), time.Hour, gives(7))
		require.NoError(t, err)
		assert.Equal(t, 7, v, "the Guard in ctx")
		l := g.take()
		_, _, err = guard.Once(l.Context(), g.Guard, k, time.Hour, never)
		require.ErrorContains(t, err, "key is locked by ctx already")
		_, _, err = guard.Once(l.Context(), g.Guard, guard.Key("another"), time.Hour, gives(1))
		require.NoError(t, err)
		g.free(l)
	})
}

// detached runs work of Once whose caller leaves as it begins.
func (g *env) detached(ctx context.Context, work func(ctx context.Context) error, opts ...guard.OnceOption) error {
	ctx, leave := context.WithCancel(ctx)
	_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(ctx context.Context) (int, error) {
		leave()
		return 1, work(ctx)
	}, append(opts, guard.Detached())...)
	return err
}

// Work whose caller left ends with its lock, or with the lock that it runs under. If it fails, that is known.
func TestDetached_WorkEndsWithItsLocksOnly(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		ctx, cancel := context.WithTimeout(withRequest(t.Context(), "kept"), time.Minute)
		defer cancel()
		g.s.Fail(errDown)
		require.NoError(t, g.detached(ctx, func(work context.Context) error { return work.Err() }, guard.FailOpen()))
		g.s.Fail(nil)
		time.Sleep(time.Second) // it is known that there is an answer again
		require.ErrorIs(t, g.detached(ctx, func(context.Context) error { return errBoom }), errBoom)
		require.NoError(t, g.detached(ctx, func(work context.Context) error {
			_, ends := work.Deadline()
			assert.False(t, ends)
			assert.Equal(t, "kept", requestOf(work))
			return work.Err()
		}, guard.AtMostOnce()))
		g.replays(1)

		_, err := g.Forget(t.Context(), k)
		require.NoError(t, err)
		lose := func(key string) func(context.Context) error {
			return func(work context.Context) error {
				g.s.Drop(key)
				<-work.Done()
				return context.Cause(work)
			}
		}
		require.ErrorIs(t, g.detached(ctx, lose("k")), guard.ErrLost)
		require.ErrorIs(t, g.WithLock(ctx, guard.Key("outer"), func(ctx context.Context) error { return g.detached(ctx, lose("outer")) }), guard.ErrLost)
	})
}

func TestDetached_TheWaitEndsWithTheCaller(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		defer g.free(g.take())
		ctx, leave := context.WithTimeoutCause(t.Context(), time.Second, errBoom)
		defer leave()
		_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, noRun[int](t), guard.Detached())
		assert.ErrorIs(t, err, errBoom)
	})
}

// A value under the record's name that is no record is an error of its own: the work does not run, and no lock is taken.
func TestOnce_DamagedRecordIsRefused(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Shared(t))
	key := guard.Key(t.Name())
	require.NoError(t, r.Direct.Set(t.Context(), testenv.LockOf(t.Name())+":once", "theirs", 0).Err())
	_, replayed, err := guard.Once(t.Context(), r.Guard, key, time.Minute, noRun[int](t), guard.FailOpen())
	assert.False(t, replayed)
	is(t, err, guard.ErrDamagedRecord, guard.ErrStore)
	require.ErrorIs(t, err, guard.ErrUnknownOutcome)
	assert.Equal(t, "idempotency_record_damaged", as[*guard.OnceError](t, err).ErrorType())
	require.EqualError(t, err, `guard: once: an earlier call began, and its outcome is not known: its record in Redis is damaged`)
	require.NoError(t, r.WithLock(t.Context(), key, nothing, guard.NoWait()), "nothing was taken")
	forgotten, err := r.Forget(t.Context(), key)
	require.NoError(t, err)
	assert.True(t, forgotten)

	v, _, err := guard.Once(t.Context(), r.Guard, key, time.Minute, func(ctx context.Context) (int, error) {
		return 7, r.Direct.Set(ctx, testenv.LockOf(t.Name())+":once", "theirs", 0).Err()
	})
	require.NoError(t, err)
	assert.Equal(t, 7, v)
	v, replayed, err = guard.Once(t.Context(), r.Guard, key, time.Minute, noRun[int](t))
	require.NoError(t, err, "the outcome takes the place of what is no record")
	assert.Equal(t, []any{7, true}, []any{v, replayed})
	_, err = r.Forget(t.Context(), key)
	require.NoError(t, err)
}

// With memory full, no work begins, and nothing stays of the attempt. A result is kept all the same.
func TestOnce_MemoryFull(t *testing.T) {
	t.Parallel()
	r := testenv.New(t, redistest.Start(t))
	full := func(most string) { require.NoError(t, r.Direct.ConfigSet(t.Context(), "maxmemory", most).Err()) }
	try := func(key string, fn func(context.Context) (int, error)) (replayed bool, err error) {
		_, replayed, err = guard.Once(t.Context(), r.Guard, guard.Key(key), time.Minute, fn, guard.AtMostOnce())
		return replayed, err
	}
	_, err := try("before", func(context.Context) (int, error) { full("1"); return 7, nil })
	require.NoError(t, err)
	replayed, err := try("before", noRun[int](t))
	require.NoError(t, err, "the result was kept, and is read")
	assert.True(t, replayed)
	_, err = try("after", noRun[int](t))
	require.ErrorIs(t, err, guard.ErrStore)
	full("0")
	replayed, err = try("after", gives(8))
	require.NoError(t, err)
	assert.False(t, replayed)
	for _, key := range []string{"before", "after"} {
		_, err = r.Forget(t.Context(), guard.Key(key))
		require.NoError(t, err)
	}
}

func TestOnce_AnotherInputIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		input := func(parts ...string) guard.OnceOption {
			var all [][]byte
			for _, p := range parts {
				all = append(all, []byte(p))
			}
			return guard.Fingerprint(all...)
		}
		g.runs(7, input("a", "bc"))
		for _, parts := range [][]string{{"ab", "c"}, {"abc"}, {"a", "bc", ""}, {}, {"a", "bd"}} {
			g.refuses(guard.ErrOtherInput, input(parts...))
		}
		g.replays(7, input("a", "bc"))
	})
}

// Work whose lock was lost has a result, which its release writes: the caller gets it, with the loss.
func TestOnce_AResultAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		v, replayed, err := once(g, func(ctx context.Context) (int, error) { g.s.Drop("k"); return 1, untilDone(ctx) }, guard.AtMostOnce())
		require.ErrorIs(t, err, guard.ErrLost)
		assert.True(t, v == 1 && !replayed, "what its work returned")
		g.another().replays(1, guard.AtMostOnce())
	})
}

// Callers of one process share a claim: its grant serves the caller that is in front by then. The success of that
// caller is recorded, in its own name. The caller for whom the claim was made leaves before the claim asks, or while it does.
func TestOnce_SuccessUnderAnotherCallersClaimIsRecorded(t *testing.T) {
	for works, whileItAsks := range map[string]bool{"second": false, "first": true} { // as far as the claim knows
		bubble(t, func(t *testing.T, g *env) {
			other := g.another()
			held := other.take()
			leaves, cancel := context.WithCancel(t.Context())
			call := func(ctx context.Context, name string) chan error {
				return begin(func() error {
					_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, gives(2), guard.Metadata(name))
					return err
				})
			}
			first, second := call(leaves, "first"), call(t.Context(), "second")
			leave := func(context.Context) error { cancel(); synctest.Wait(); return nil }
			if whileItAsks {
				g.s.Trouble(only("acquire", leave), nil)
			} else {
				_ = leave(leaves)
			}
			other.free(held)
			is(t, <-first, context.Canceled)
			require.NoError(t, <-second)
			g.s.Trouble(nil, nil)
			claim, _ := g.s.Last("k")
			assert.Equal(t, works, claim.Metadata)
			assert.Equal(t, "second", g.s.Outcome("k").Holder, "the record names the caller that worked")
			other.replays(2)
		})
	}
}

// A caller leaves whose claim was granted, and never answered: nothing began, also if the hold is gone by then.
func TestOnce_AClaimThatIsGivenUpIsNoBeginning(t *testing.T) {
	for _, drop := range []bool{false, true} {
		bubble(t, func(t *testing.T, g *env) {
			g.s.Trouble(nil, only("acquire", func(ctx context.Context) error {
				if drop {
					g.s.Drop("k")
				}
				return silent(ctx)
			}))
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, noRun[int](t))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			synctest.Wait()
			g.s.Trouble(nil, nil)
			g.another().runs(7, guard.AtMostOnce(), guard.NoWait())
		})
	}
}
