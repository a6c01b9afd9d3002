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

// runs checks that Once runs its work, and gives the fence of an earlier beginning.
func (g *env) runs(v int, opts ...guard.OnceOption) (earlier uint64) {
	g.t.Helper()
	got, replayed, err := once(g, func(ctx context.Context) (int, error) {
		earlier, _ = guard.Interrupted(ctx)
		return v, nil
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
		for range 4 {
			g.replays(1)
		}
		assert.Equal(t, 5, g.s.Calls("acquire"), "a replay is one round trip")
		assert.Equal(t, 1, g.s.Calls("release"))
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
		require.NoError(t, g.Shutdown(t.Context()), "nothing is on its way")
		_ = fails(t.Context(), k, guard.ErrClosed)
	})
}

// Observers learn why Once did not run.
func TestOnce_RefusalsAreEvents(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		large := guard.MaxResult(1)
		kinds := []guard.EventKind{guard.EventReplayed, guard.EventOtherInput, guard.EventUnknownOutcome, guard.EventNotKept}
		counts := func() (n [4]int) {
			for i, kind := range kinds {
				n[i] = len(g.r.Events(kind))
			}
			return n
		}
		other := g.another()
		other.runs(1, guard.Fingerprint([]byte("a")))
		g.replays(1, guard.Fingerprint([]byte("a")))
		assert.Equal(t, [4]int{1, 0, 0, 0}, counts())
		assert.NoError(t, g.r.Events(guard.EventReplayed)[0].Err)
		g.refuses(guard.ErrOtherInput, guard.Fingerprint([]byte("b")))
		assert.Equal(t, [4]int{1, 1, 0, 0}, counts())
		_, err := other.Forget(t.Context(), k)
		require.NoError(t, err)
		other.runs(10, large)
		refusal := g.refusal(guard.ErrNotKept)
		assert.Equal(t, [4]int{1, 1, 0, 1}, counts())
		assert.Equal(t, refusal, g.r.Events(guard.EventNotKept)[0].Err)
		_, err = other.Forget(t.Context(), k)
		require.NoError(t, err)
		unfinished["loss"](other, guard.AtMostOnce())
		refusal = g.refusal(guard.ErrUnknownOutcome, guard.AtMostOnce())
		assert.Equal(t, [4]int{1, 1, 1, 1}, counts())
		assert.Equal(t, refusal, g.r.Events(guard.EventUnknownOutcome)[0].Err)
		require.NoError(t, g.lock(guard.NoWait()))
		l := other.take()
		g.refuses(guard.ErrBusy, guard.NoWait())
		other.free(l)
		assert.Equal(t, [4]int{1, 1, 1, 1}, counts(), "other calls")
	})
}

// A result is as long as it is encoded, and each Encoding is its own.
func TestOnce_MaxResultAndEncodingCount(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		hash := guard.Encoding(
			func(v any) ([]byte, error) { return []byte(strings.Repeat("#", v.(int))), nil },
			func(data []byte, v any) error { *v.(*int) = len(data); return nil },
		)
		g.runs(7, hash, guard.MaxResult(7))
		g.replays(7, hash)
		_, err := g.Forget(t.Context(), k)
		require.NoError(t, err)
		g.runs(8, hash, guard.MaxResult(7))
		g.refuses(guard.ErrNotKept, hash)
		require.NoError(t, errors.Join(checkOnce(time.Hour, guard.MaxResult(1)), checkOnce(time.Hour, guard.MaxResult(1<<20))))
	})
}

// What a result is does not matter to Once.
func TestOnce_Encoding(t *testing.T) {
	type receipt struct {
		ID     int
		Amount string
	}
	bubble(t, func(t *testing.T, g *env) {
		raw := guard.Encoding(
			func(v any) ([]byte, error) { return v.([]byte), nil },
			func(data []byte, v any) error { *v.(*[]byte) = data; return nil },
		)
		for i := range 2 {
			got, replayed, err := once(g, gives([]byte{0, 255, '\n'}), raw)
			require.NoError(t, err)
			assert.Equal(t, i > 0, replayed)
			assert.Equal(t, []byte{0, 255, '\n'}, got)
			kept, replayed, err := guard.Once(t.Context(), g.Guard, guard.Key("r"), time.Hour, gives(receipt{i, "10 EUR"}))
			require.NoError(t, err)
			assert.Equal(t, i > 0, replayed)
			assert.Equal(t, receipt{0, "10 EUR"}, kept)
		}
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
			deleted, err := g.Forget(t.Context(), k)
			require.ErrorIs(t, err, guard.ErrBusy, "work in progress is not forgotten")
			assert.False(t, deleted)
			busy := as[*guard.BusyError](t, err)
			assert.Equal(t, guard.BusyError{Key: "k", RetryAfter: time.Second}, *busy)
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

// unfinished are the ways in which it is not known how far the work came. The fence is 0 if the caller was stopped.
var unfinished = map[string]func(g *env, opts ...guard.OnceOption) (fence uint64){
	"panic": func(g *env, opts ...guard.OnceOption) (fence uint64) {
		apart(func() {
			_, _, _ = once(g, func(ctx context.Context) (int, error) { fence, _ = guard.Fence(ctx); panic("boom") }, opts...)
		})
		return fence
	},
	"Goexit": func(g *env, opts ...guard.OnceOption) (fence uint64) {
		apart(func() {
			_, _, _ = once(g, func(ctx context.Context) (int, error) { fence, _ = guard.Fence(ctx); runtime.Goexit(); return 1, nil }, opts...)
		})
		return fence
	},
	"context": func(g *env, opts ...guard.OnceOption) (fence uint64) {
		ctx, cancel := context.WithCancel(g.t.Context())
		_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, func(ctx context.Context) (int, error) {
			fence, _ = guard.Fence(ctx)
			cancel()
			return 0, ctx.Err()
		}, opts...)
		require.ErrorIs(g.t, err, context.Canceled)
		return fence
	},
	"loss": func(g *env, opts ...guard.OnceOption) (fence uint64) {
		_, _, err := once(g, func(ctx context.Context) (int, error) {
			fence, _ = guard.Fence(ctx)
			g.s.Drop("k")
			<-ctx.Done()
			return 0, ctx.Err()
		}, opts...)
		require.ErrorIs(g.t, err, guard.ErrLost)
		return fence
	},
}

// The next call learns of unfinished work, under another lock, too. At most once, no call follows it until a person decides.
func TestOnce_TheCallAfterUnfinishedWorkLearnsOfIt(t *testing.T) {
	for name, leave := range unfinished {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, g *env) {
				other := g.another()
				assert.Equal(t, leave(g), other.runs(1))
				_, err := g.Forget(t.Context(), k)
				require.NoError(t, err)
				fence := leave(g, guard.AtMostOnce())
				for _, g := range []*env{g, other} {
					unknown := as[*guard.OnceError](t, g.refusal(guard.ErrUnknownOutcome, guard.AtMostOnce()))
					assert.Equal(t, []string{"", "k"}, []string{unknown.Name, unknown.Key})
					assert.Equal(t, fence, unknown.Fence)
					assert.Equal(t, "idempotency_outcome_unknown", unknown.ErrorType())
					assert.NotContains(t, unknown.Error(), `"k"`)
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

func TestOnce_EarlierUnderAnotherLock(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		fence := unfinished["context"](g)
		_, _, err := once(g, func(ctx context.Context) (int, error) {
			return 7, g.WithLock(ctx, guard.Key("inner"), func(ctx context.Context) error {
				earlier, ok := guard.Interrupted(ctx)
				assert.True(t, ok)
				assert.Equal(t, fence, earlier)
				return nil
			})
		})
		require.NoError(t, err)
	})
}

// The result of work whose lock was lost is kept at most once only, and never in the place of another's.
func TestOnce_AResultAfterALoss(t *testing.T) {
	for _, atMostOnce := range []guard.OnceOption{nil, guard.AtMostOnce()} {
		for _, another := range []bool{false, true} {
			bubble(t, func(t *testing.T, g *env) {
				other := g.another()
				v, replayed, err := once(g, func(ctx context.Context) (int, error) {
					g.s.Drop("k")
					<-ctx.Done()
					if another {
						assert.NotZero(t, other.runs(2))
					}
					return 1, nil
				}, atMostOnce)
				require.ErrorIs(t, err, guard.ErrLost)
				assert.Equal(t, 1, v, "the caller has what its work returned")
				assert.False(t, replayed)
				switch {
				case another:
					other.replays(2, atMostOnce)
				case atMostOnce != nil:
					other.replays(1, atMostOnce)
				default:
					assert.NotZero(t, other.runs(3))
				}
			})
		}
	}
}

func TestOnce_AResultThatIsTooLargeIsNotKept(t *testing.T) {
	type odd struct{ C chan int }
	bubble(t, func(t *testing.T, g *env) {
		large := strings.Repeat("x", 64<<10)
		for key, run := range map[string]func(key guard.KeyFunc) (bool, error){
			"large": func(key guard.KeyFunc) (bool, error) {
				v, replayed, err := guard.Once(t.Context(), g.Guard, key, time.Hour, gives(large))
				assert.True(t, err != nil || v == large)
				return replayed, err
			},
			"odd": func(key guard.KeyFunc) (bool, error) {
				_, replayed, err := guard.Once(t.Context(), g.Guard, key, time.Hour, gives(odd{make(chan int)}))
				return replayed, err
			},
		} {
			before := len(g.r.Events(guard.EventNotKept))
			replayed, err := run(guard.Key(key))
			require.NoError(t, err, "the first caller has its value")
			assert.False(t, replayed)
			events := g.r.Events(guard.EventNotKept)
			require.Len(t, events, before+1)
			event := as[*guard.OnceError](t, events[before].Err)
			claim, fence := g.s.last(key)
			assert.Equal(t, []any{"", claim.Key, fence}, []any{event.Name, event.Key, event.Fence})
			require.ErrorIs(t, event, guard.ErrNotKept)
			assert.Contains(t, event.Error(), map[string]string{"large": "it has 65538 bytes, MaxResult is 65536", "odd": "unsupported type"}[key])
			for range 2 {
				replayed, err = run(guard.Key(key))
				require.ErrorIs(t, err, guard.ErrNotKept)
				assert.False(t, replayed)
			}
		}
		for _, want := range []bool{false, true} {
			_, replayed, err := once(g, gives("12345678"), guard.MaxResult(10))
			require.NoError(t, err)
			assert.Equal(t, want, replayed)
		}
		refusal := as[*guard.OnceError](t, g.refusal(guard.ErrNotKept))
		assert.Contains(t, refusal.Error(), "decode it")
		assert.Empty(t, refusal.Name)
		assert.Equal(t, "k", refusal.Key)
		assert.NotZero(t, refusal.Fence)
	})
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
		other := g.another()
		_, _, err := once(g, func(context.Context) (int, error) {
			start := time.Now()
			g.refuses(guard.ErrOtherInput, input("ab", "c"), guard.Wait(time.Minute))
			other.refuses(guard.ErrOtherInput, input("ab", "c"), guard.Wait(time.Minute))
			assert.Less(t, time.Since(start), time.Second, "no caller waits for it")
			return 7, nil
		}, input("a", "bc"))
		require.NoError(t, err)
		for _, parts := range [][]string{{"ab", "c"}, {"abc"}, {"a", "bc", ""}, {}, {"a", "bd"}} {
			_ = as[*guard.OnceError](t, other.refusal(guard.ErrOtherInput, input(parts...)))
		}
		other.replays(7, input("a", "bc"))
		waits := g.r.Observations("WaitEnd")
		assert.Equal(t, guard.OutcomeRecorded, waits[1].Wait.Outcome)
		require.ErrorIs(t, waits[1].Wait.Err, guard.ErrOtherInput)
		waits = other.r.Observations("WaitEnd")
		assert.Equal(t, guard.OutcomeRecorded, waits[6].Wait.Outcome)
		require.NoError(t, waits[6].Wait.Err)
		assert.Len(t, g.r.Events(guard.EventOtherInput), 1)
		assert.Empty(t, g.r.Events(guard.EventReplayed))
		assert.Len(t, other.r.Events(guard.EventReplayed), 1)
	})
}

// Without Redis, FailOpen runs work without a lock: it has no record, and writes none for a lock around it.
func TestOnce_WithoutALockNothingIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("outer"), func(ctx context.Context) error {
			g.s.Fail(errDown)
			g.refuses(guard.ErrStore)
			_, err := g.Forget(t.Context(), k)
			require.ErrorIs(t, err, guard.ErrStore)
			v, replayed, err := guard.Once(ctx, g.Guard, k, time.Hour, func(ctx context.Context) (int, error) {
				_, held := guard.Held(ctx, guard.Key("k"))
				_, ok := guard.Interrupted(ctx)
				assert.False(t, held || ok)
				return 7, nil
			}, guard.FailOpen())
			assert.Equal(t, 7, v)
			assert.False(t, replayed)
			_, _, failed := once(g, func(context.Context) (int, error) { return 0, errBoom }, guard.FailOpen())
			assert.Same(t, errBoom, failed)
			g.s.Fail(nil)
			time.Sleep(time.Second) // it is known that there is an answer again
			return err
		}))
		assert.Len(t, g.r.Events(guard.EventFailedOpen), 2)
		_, replayed, err := guard.Once(t.Context(), g.Guard, guard.Key("outer"), time.Hour, gives(8))
		require.NoError(t, err)
		assert.False(t, replayed)
		assert.Zero(t, g.runs(8))
	})
}

// Redis is down when the work is done: the caller has the true result. Its release is repeated until the lock lapses.
func TestOnce_RedisDownAfter(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		down := func() {
			v, replayed, err := once(g, func(context.Context) (int, error) { g.s.Fail(errDown); return 7, nil }, guard.AtMostOnce(), guard.TTL(5*time.Second))
			require.NoError(t, err)
			assert.Equal(t, 7, v)
			assert.False(t, replayed)
		}
		down()
		assert.NotEmpty(t, g.r.Events(guard.EventReleaseFailure))
		g.s.Fail(nil)
		time.Sleep(time.Second)
		g.replays(7, guard.AtMostOnce())
		_, err := g.Forget(t.Context(), k)
		require.NoError(t, err)
		down()
		time.Sleep(time.Minute)
		g.s.Fail(nil)
		g.refuses(guard.ErrUnknownOutcome, guard.AtMostOnce())
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

// A caller leaves whose claim was granted, and never answered: nothing began.
func TestOnce_AClaimThatIsGivenUpIsNoBeginning(t *testing.T) {
	for _, drop := range []bool{false, true} {
		bubble(t, func(t *testing.T, g *env) {
			g.s.trouble(nil, func(ctx context.Context, op, _ string) error {
				if op != "acquire" {
					return nil
				}
				if drop {
					g.s.Drop("k")
				}
				<-ctx.Done()
				return ctx.Err()
			})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, _, err := guard.Once(ctx, g.Guard, k, time.Hour, noRun[int](t))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			synctest.Wait()
			g.s.trouble(nil, nil)
			g.another().runs(7, guard.AtMostOnce(), guard.NoWait())
		})
	}
}

// Stores count milliseconds.
func TestOnce_KeepIsCutToWholeMilliseconds(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		_, _, err := guard.Once(t.Context(), g.Guard, k, 3*time.Millisecond+999*time.Microsecond, gives(1))
		require.NoError(t, err)
		claim, _ := g.s.last("k")
		assert.Equal(t, 3*time.Millisecond, claim.Once.Keep)
	})
}

func TestOnce_BadArguments(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		noRecords := testenv.GuardOnStore(t, struct{ guardstore.Store }{g.s})
		_, forget := noRecords.Forget(t.Context(), k)
		try := func(g *guard.Guard, keep time.Duration, fn func(context.Context) (int, error), opts ...guard.OnceOption) error {
			_, replayed, err := guard.Once(t.Context(), g, k, keep, fn, opts...)
			assert.False(t, replayed)
			return err
		}
		never := noRun[int](t)
		for want, err := range map[string]error{
			"keep 0s is outside 1ms to 8784h0m0s":         try(g.Guard, 0, never),
			"keep 8784h0m0.001s is outside":               try(g.Guard, 366*24*time.Hour+time.Millisecond, never),
			"fn is nil":                                   try(g.Guard, time.Hour, nil),
			"Limit does not go with Once":                 try(g.Guard, time.Hour, never, guard.Limit(2)),
			"Shared does not go with Once":                try(g.Guard, time.Hour, never, guard.Shared()),
			"Once needs one Redis, Sentinel or Cluster":   try(noRecords, time.Hour, never),
			"MaxResult 0 bytes is outside 1 to 1048576":   try(g.Guard, time.Hour, never, guard.MaxResult(0)),
			"MaxResult 1048577 bytes is outside":          try(g.Guard, time.Hour, never, guard.MaxResult(1<<20+1)),
			"Encoding needs two functions":                try(g.Guard, time.Hour, never, guard.Encoding(nil, nil)),
			"TTL 1ms is outside":                          try(g.Guard, time.Hour, never, guard.TTL(time.Millisecond)),
			"Forget needs one Redis, Sentinel or Cluster": forget,
			"keep 0s is outside 1ms to":                   checkOnce(0),
			"keep 999.999µs is outside 1ms to 8784h0m0s":  checkOnce(time.Millisecond - 1),
			"keep 8784h0m0.000000001s is outside":         checkOnce(366*24*time.Hour + 1),
			"Encoding needs two functions, one is nil":    checkOnce(time.Hour, guard.Encoding(json.Marshal, nil)),
			"Encoding needs two functions, one":           checkOnce(time.Hour, guard.Encoding(nil, json.Unmarshal)),
			"TTL 0s is outside":                           checkOnce(time.Hour, guard.TTL(0)),
			"Limit does not go with":                      checkOnce(time.Hour, guard.Limit(2)),
			"Shared does not go with":                     checkOnce(time.Hour, guard.Shared()),
			"FailOpen does not go with AtMostOnce":        checkOnce(time.Hour, guard.FailOpen(), guard.AtMostOnce()),
			"FailOpen does not go with AtMostOnce: with":  try(g.Guard, time.Hour, never, guard.AtMostOnce(), guard.FailOpen()),
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
		_, _, err = once(g, func(ctx context.Context) (int, error) {
			return 7, g.WithLock(ctx, k, func(context.Context) error {
				assert.Equal(t, 2, g.s.Depth("k"))
				return nil
			}, guard.NoWait())
		})
		require.NoError(t, err, "re-entry under its own work")
		g.replays(7)
	})
}
