package guard_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// receipt is a result.
type receipt struct {
	ID     int
	Amount string
}

// charger counts how often it runs, and under which earlier fence.
type charger struct {
	runs    atomic.Int64
	earlier atomic.Uint64
}

func (c *charger) charge(ctx context.Context) (receipt, error) {
	if fence, ok := guard.Earlier(ctx); ok {
		c.earlier.Store(fence)
	}
	return receipt{int(c.runs.Add(1)), "10 EUR"}, nil
}

func TestOnce_AResultIsReplayed(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		var c charger
		for i := range 5 {
			got, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, c.charge)
			require.NoError(t, err)
			assert.Equal(t, i > 0, replayed)
			assert.Equal(t, receipt{1, "10 EUR"}, got)
		}
		assert.Equal(t, 5, s.Calls("acquire"), "a replay is one round trip")
		assert.Equal(t, 1, s.Calls("release"))
		time.Sleep(time.Hour)
		got, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, c.charge)
		require.NoError(t, err)
		assert.False(t, replayed)
		assert.Equal(t, 2, got.ID)
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.NoWait()), "the key is free all the while")
	})
}

func TestOnce_AllThatWaitGetTheResult(t *testing.T) {
	testenv.Guards(t, 4, func(t *testing.T, _ *guardtest.Store, gs []*guard.Guard) {
		var c charger
		var wg sync.WaitGroup
		var replays atomic.Int64
		for i := range 64 {
			wg.Go(func() {
				got, replayed, err := guard.Once(t.Context(), gs[i%len(gs)], testenv.Order, time.Hour, func(ctx context.Context) (receipt, error) {
					time.Sleep(time.Minute)
					return c.charge(ctx)
				}, guard.Fingerprint([]byte("10 EUR")))
				assert.NoError(t, err)
				assert.Equal(t, receipt{1, "10 EUR"}, got)
				if replayed {
					replays.Add(1)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		assert.EqualValues(t, 63, replays.Load())
		assert.Less(t, time.Since(start), time.Minute+time.Second)
		for _, g := range gs {
			require.NoError(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing, guard.Wait(10*time.Second)))
		}
	})
}

func TestOnce_InProgressIsBusy(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, _ *guardtest.Store, gs []*guard.Guard) {
		begun, end := make(chan struct{}), make(chan struct{})
		first := testenv.InBackground(func() error {
			_, _, err := guard.Once(t.Context(), gs[0], testenv.Order, time.Hour, func(context.Context) (int, error) {
				close(begun)
				<-end
				return 1, nil
			}, guard.Metadata("worker 7"))
			return err
		})
		<-begun
		for _, g := range gs {
			for _, opt := range []guard.OnceOption{guard.NoWait(), guard.Wait(3 * time.Second)} {
				var busy *guard.BusyError
				_, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t), opt, guard.AtMostOnce())
				require.ErrorAs(t, err, &busy)
				assert.Equal(t, "worker 7", busy.Holder)
			}
			deleted, err := g.Forget(t.Context(), testenv.Order)
			require.ErrorIs(t, err, guard.ErrBusy, "nobody forgets what is in progress")
			assert.False(t, deleted)
		}
		close(end)
		require.NoError(t, first(t))
	})
}

// never is work that is not to run.
func never[T any](t *testing.T) func(context.Context) (T, error) {
	return func(context.Context) (none T, _ error) {
		t.Error("it ran")
		return none, nil
	}
}

func TestOnce_WorkThatFailedRunsAgain(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		var c charger
		boom := errors.New("boom")
		for _, opt := range []guard.OnceOption{nil, guard.AtMostOnce()} {
			_, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(context.Context) (receipt, error) {
				return receipt{ID: -1}, boom
			}, opt)
			assert.Same(t, boom, err)
			assert.False(t, replayed)
		}
		got, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, c.charge, guard.AtMostOnce())
		require.NoError(t, err)
		assert.False(t, replayed)
		assert.Equal(t, 1, got.ID)
		assert.Zero(t, c.earlier.Load())
	})
}

// unfinished are the ways in which nobody knows how far the work came.
var unfinished = map[string]func(t *testing.T, g *guard.Guard, s *guardtest.Store, opts ...guard.OnceOption) (fence uint64){
	"panic": func(t *testing.T, g *guard.Guard, _ *guardtest.Store, opts ...guard.OnceOption) (fence uint64) {
		defer func() { assert.Equal(t, "boom", recover()) }()
		_, _, _ = guard.Once(t.Context(), g, testenv.Order, time.Hour, func(ctx context.Context) (int, error) {
			fence, _ = guard.Fence(ctx)
			panic("boom")
		}, opts...)
		return 0
	},
	"Goexit": func(t *testing.T, g *guard.Guard, _ *guardtest.Store, opts ...guard.OnceOption) (fence uint64) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = guard.Once(t.Context(), g, testenv.Order, time.Hour, func(ctx context.Context) (int, error) {
				fence, _ = guard.Fence(ctx)
				runtime.Goexit()
				return 1, nil
			}, opts...)
		}()
		<-done
		return fence
	},
	"context": func(t *testing.T, g *guard.Guard, _ *guardtest.Store, opts ...guard.OnceOption) (fence uint64) {
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := guard.Once(ctx, g, testenv.Order, time.Hour, func(ctx context.Context) (int, error) {
			fence, _ = guard.Fence(ctx)
			cancel()
			return 0, ctx.Err()
		}, opts...)
		require.ErrorIs(t, err, context.Canceled)
		return fence
	},
	"loss": func(t *testing.T, g *guard.Guard, s *guardtest.Store, opts ...guard.OnceOption) (fence uint64) {
		_, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(ctx context.Context) (int, error) {
			fence, _ = guard.Fence(ctx)
			s.Drop("order:42")
			<-ctx.Done()
			return 0, ctx.Err()
		}, opts...)
		require.ErrorIs(t, err, guard.ErrLost)
		return fence
	},
}

func TestOnce_WhoFollowsUnfinishedWorkLearnsOfIt(t *testing.T) {
	for name, leave := range unfinished {
		t.Run(name, func(t *testing.T) {
			testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
				var c charger
				fence := leave(t, gs[0], s)
				got, replayed, err := guard.Once(t.Context(), gs[1], testenv.Order, time.Hour, c.charge)
				require.NoError(t, err)
				assert.False(t, replayed)
				assert.Equal(t, 1, got.ID)
				assert.NotZero(t, c.earlier.Load())
				if fence > 0 {
					assert.Equal(t, fence, c.earlier.Load())
				}
			})
		})
	}
}

func TestOnce_AtMostOnceNobodyFollowsUnfinishedWork(t *testing.T) {
	for name, leave := range unfinished {
		t.Run(name, func(t *testing.T) {
			testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
				leave(t, gs[0], s, guard.AtMostOnce())
				for _, g := range gs {
					var once *guard.OnceError
					_, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t), guard.AtMostOnce())
					require.ErrorAs(t, err, &once)
					require.ErrorIs(t, err, guard.ErrUnknownOutcome)
					assert.False(t, replayed)
					assert.Equal(t, "order:42", once.Key)
					assert.NotZero(t, once.Fence)
					assert.Equal(t, "once_unknown_outcome", once.ErrorType())
					assert.NotContains(t, err.Error(), "order:42")
				}
				deleted, err := gs[1].Forget(t.Context(), testenv.Order)
				require.NoError(t, err)
				assert.True(t, deleted)
				deleted, err = gs[0].Forget(t.Context(), testenv.Order)
				require.NoError(t, err)
				assert.False(t, deleted, "there is none")
				var c charger
				_, replayed, err := guard.Once(t.Context(), gs[0], testenv.Order, time.Hour, c.charge, guard.AtMostOnce())
				require.NoError(t, err)
				assert.False(t, replayed)
				assert.Zero(t, c.earlier.Load(), "a person decided")
			})
		})
	}
}

// The result of work whose lock was lost is kept at most once only, and never over that of another.
func TestOnce_AResultAfterALoss(t *testing.T) {
	for _, atMostOnce := range []bool{false, true} {
		for _, another := range []bool{false, true} {
			testenv.Guards(t, 2, func(t *testing.T, s *guardtest.Store, gs []*guard.Guard) {
				var opts []guard.OnceOption
				if atMostOnce {
					opts = append(opts, guard.AtMostOnce())
				}
				v, replayed, err := guard.Once(t.Context(), gs[0], testenv.Order, time.Hour, func(ctx context.Context) (string, error) {
					s.Drop("order:42")
					<-ctx.Done()
					if another {
						v, _, err := guard.Once(guard.Detach(ctx), gs[1], testenv.Order, time.Hour, func(context.Context) (string, error) { return "another", nil })
						require.NoError(t, err)
						assert.Equal(t, "another", v)
					}
					return "lost", nil
				}, opts...)
				require.ErrorIs(t, err, guard.ErrLost)
				assert.Equal(t, "lost", v, "the caller has what its work returned")
				assert.False(t, replayed)
				v, replayed, err = guard.Once(t.Context(), gs[1], testenv.Order, time.Hour, func(ctx context.Context) (string, error) {
					_, ok := guard.Earlier(ctx)
					assert.True(t, ok)
					return "again", nil
				}, opts...)
				require.NoError(t, err)
				switch {
				case another:
					assert.Equal(t, "another", v)
				case atMostOnce:
					assert.Equal(t, "lost", v)
				default:
					assert.Equal(t, "again", v)
				}
				assert.Equal(t, another || atMostOnce, replayed)
			})
		}
	}
}

func TestOnce_AResultThatIsTooLargeIsNotKept(t *testing.T) {
	type odd struct{ C chan int }
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, r *guardtest.Recorder) {
		large := strings.Repeat("x", guard.DefaultMaxResult)
		for key, run := range map[string]func(key guard.KeyFunc) (bool, error){
			"large": func(key guard.KeyFunc) (replayed bool, err error) {
				var v string
				v, replayed, err = guard.Once(t.Context(), g, key, time.Hour, func(context.Context) (string, error) { return large, nil })
				if err == nil {
					assert.Equal(t, large, v)
				}
				return replayed, err
			},
			"odd": func(key guard.KeyFunc) (bool, error) {
				_, replayed, err := guard.Once(t.Context(), g, key, time.Hour, func(context.Context) (odd, error) { return odd{make(chan int)}, nil })
				return replayed, err
			},
		} {
			replayed, err := run(guard.Key(key))
			require.NoError(t, err, "the first caller has its value")
			assert.False(t, replayed)
			events := r.Events(guard.NotKept)
			require.NotEmpty(t, events)
			assert.Error(t, events[len(events)-1].Err)
			for range 2 {
				replayed, err = run(guard.Key(key))
				require.ErrorIs(t, err, guard.ErrNotKept)
				assert.False(t, replayed)
			}
		}
		_, replayed, err := guard.Once(t.Context(), g, guard.Key("exact"), time.Hour, func(context.Context) (string, error) { return "12345678", nil }, guard.MaxResult(10))
		require.NoError(t, err)
		assert.False(t, replayed)
		_, replayed, err = guard.Once(t.Context(), g, guard.Key("exact"), time.Hour, never[string](t))
		require.NoError(t, err)
		assert.True(t, replayed)
		_, replayed, err = guard.Once(t.Context(), g, guard.Key("exact"), time.Hour, never[int](t))
		require.ErrorIs(t, err, guard.ErrNotKept, "a result that cannot be decoded")
		assert.False(t, replayed)
	})
}

func TestOnce_AnotherInputIsRefused(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, _ *guardtest.Store, gs []*guard.Guard) {
		other := func(parts ...string) {
			t.Helper()
			var bytes [][]byte
			for _, p := range parts {
				bytes = append(bytes, []byte(p))
			}
			for _, g := range gs {
				var once *guard.OnceError
				_, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t), guard.Fingerprint(bytes...), guard.Wait(time.Minute))
				require.ErrorAs(t, err, &once)
				require.ErrorIs(t, err, guard.ErrOtherInput)
			}
		}
		same := guard.Fingerprint([]byte("a"), []byte("bc"))
		_, _, err := guard.Once(t.Context(), gs[0], testenv.Order, time.Hour, func(context.Context) (int, error) {
			start := time.Now()
			other("ab", "c")
			assert.Less(t, time.Since(start), time.Second, "nobody waits for it")
			return 7, nil
		}, same)
		require.NoError(t, err)
		other("ab", "c")
		other("abc")
		other("a", "bc", "")
		v, replayed, err := guard.Once(t.Context(), gs[1], testenv.Order, time.Hour, never[int](t), same)
		require.NoError(t, err)
		assert.True(t, replayed)
		assert.Equal(t, 7, v)
	})
}

func TestOnce_RedisDownBefore(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		s.Fail(errDown)
		_, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t))
		require.ErrorIs(t, err, guard.ErrStore)
		_, err = g.Forget(t.Context(), testenv.Order)
		require.ErrorIs(t, err, guard.ErrStore)
		v, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(ctx context.Context) (int, error) {
			_, held := guard.Held(ctx, "order:42")
			assert.False(t, held)
			_, ok := guard.Earlier(ctx)
			assert.False(t, ok)
			return 7, nil
		}, guard.FailOpen())
		require.NoError(t, err)
		assert.False(t, replayed)
		assert.Equal(t, 7, v)
		assert.NotEmpty(t, r.Events(guard.FailedOpen))
	})
}

func TestOnce_RedisDownAfter(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		v, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(context.Context) (int, error) {
			s.Fail(errDown)
			return 7, nil
		}, guard.AtMostOnce())
		require.NoError(t, err, "the caller gets the true result")
		assert.Equal(t, 7, v)
		assert.False(t, replayed)
		assert.NotEmpty(t, r.Events(guard.ReleaseFailure))
		s.Fail(nil)
		synctest.Wait()
		time.Sleep(time.Second)
		v, replayed, err = guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t), guard.AtMostOnce())
		require.NoError(t, err, "the release was repeated")
		assert.True(t, replayed)
		assert.Equal(t, 7, v)

		_, _, err = guard.Once(t.Context(), g, guard.Key("k"), time.Hour, func(context.Context) (int, error) {
			s.Fail(errDown)
			return 7, nil
		}, guard.AtMostOnce(), guard.TTL(time.Second))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		s.Fail(nil)
		_, _, err = guard.Once(t.Context(), g, guard.Key("k"), time.Hour, never[int](t), guard.AtMostOnce())
		require.ErrorIs(t, err, guard.ErrUnknownOutcome)
	})
}

// A context that ends when the work is done does not keep its result from being recorded.
func TestOnce_TheCallersContextEndsAfterTheWork(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		v, _, err := guard.Once(ctx, g, testenv.Order, time.Hour, func(context.Context) (int, error) {
			cancel()
			return 7, nil
		})
		require.NoError(t, err)
		assert.Equal(t, 7, v)
		_, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t))
		require.NoError(t, err)
		assert.True(t, replayed)
	})
}

// panics ends a call between its grant and its work.
type panics struct{ guard.NopObserver }

func (panics) HoldStart(context.Context, guard.Lock, guard.Hold) context.Context { panic("observer") }

// A grant under which nothing ran leaves no record: at most once, the next call runs.
func TestOnce_WhatNeverRanIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guardtest.NewStore()
		broken, whole := testenv.GuardOnStore(t, s, guard.Observe(panics{})), testenv.GuardOnStore(t, s)
		func() {
			defer func() { assert.Equal(t, "observer", recover()) }()
			_, _, _ = guard.Once(t.Context(), broken, testenv.Order, time.Hour, never[int](t), guard.AtMostOnce())
		}()
		synctest.Wait()
		_, replayed, err := guard.Once(t.Context(), whole, testenv.Order, time.Hour, func(context.Context) (int, error) { return 7, nil }, guard.AtMostOnce())
		require.NoError(t, err)
		assert.False(t, replayed)
	})
}

func TestOnce_ARecordExpiresWhileSomebodyWaits(t *testing.T) {
	testenv.Guards(t, 2, func(t *testing.T, _ *guardtest.Store, gs []*guard.Guard) {
		var c charger
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				_, _, err := guard.Once(t.Context(), gs[i%2], testenv.Order, time.Second, func(ctx context.Context) (receipt, error) {
					time.Sleep(time.Minute) // longer than the record of its beginning lives
					return c.charge(ctx)
				})
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.EqualValues(t, 1, c.runs.Load())
	})
}

func TestOnce_BadArguments(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		noRecords := testenv.GuardOnStore(t, struct{ guardstore.Store }{s})
		work := func(context.Context) (int, error) { t.Error("it ran"); return 0, nil }
		for want, run := range map[string]func() error{
			"keep 0s is outside 1ms to 8784h0m0s":         onceError(t, g, 0, work),
			"keep 8784h0m0.001s is outside":               onceError(t, g, guard.MaxKeep+time.Millisecond, work),
			"fn is nil":                                   onceError[int](t, g, time.Hour, nil),
			"Limit does not go with Once":                 onceError(t, g, time.Hour, work, guard.Limit(2)),
			"Shared does not go with Once":                onceError(t, g, time.Hour, work, guard.Shared()),
			"Once needs one Redis, Sentinel or Cluster":   onceError(t, noRecords, time.Hour, work),
			"MaxResult 0 bytes is outside 1 to 1048576":   onceError(t, g, time.Hour, work, guard.MaxResult(0)),
			"MaxResult 1048577 bytes is outside":          onceError(t, g, time.Hour, work, guard.MaxResult(1<<20+1)),
			"Encoding needs two functions":                onceError(t, g, time.Hour, work, guard.Encoding(nil, nil)),
			"TTL 1ms is outside":                          onceError(t, g, time.Hour, work, guard.TTL(time.Millisecond)),
			"Forget needs one Redis, Sentinel or Cluster": func() error { _, err := noRecords.Forget(t.Context(), testenv.Order); return err },
		} {
			err := run()
			require.ErrorIs(t, err, guard.ErrOption, want)
			assert.ErrorContains(t, err, want)
		}
		require.NoError(t, g.WithLock(t.Context(), testenv.Order, func(ctx context.Context) error {
			_, _, err := guard.Once(ctx, g, testenv.Order, time.Hour, work)
			assert.ErrorContains(t, err, "key is locked by ctx already")
			_, _, err = guard.Once(ctx, g, guard.Key("another"), time.Hour, func(context.Context) (int, error) { return 1, nil })
			return err
		}))
		require.ErrorIs(t, guard.CheckOnce(0), guard.ErrOption)
		require.ErrorIs(t, guard.CheckOnce(time.Hour, guard.TTL(0)), guard.ErrOption)
		require.ErrorIs(t, guard.CheckOnce(time.Hour, guard.Limit(2)), guard.ErrOption)
		require.ErrorIs(t, guard.CheckOnce(time.Hour, guard.Shared()), guard.ErrOption)
		require.NoError(t, guard.CheckOnce(time.Hour, nil, guard.AtMostOnce(), guard.TTL(time.Second)))
		_, _, err := guard.Once(t.Context(), nil, testenv.Order, time.Hour, work)
		require.ErrorIs(t, err, guard.ErrNoGuard)
	})
}

func onceError[T any](t *testing.T, g *guard.Guard, keep time.Duration, fn func(context.Context) (T, error), opts ...guard.OnceOption) func() error {
	return func() error {
		_, _, err := guard.Once(t.Context(), g, testenv.Order, keep, fn, opts...)
		return err
	}
}

func TestOnce_ReentryUnderItsOwnWork(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		v, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(ctx context.Context) (int, error) {
			err := g.WithLock(ctx, testenv.Order, func(context.Context) error {
				assert.Equal(t, 2, s.Depth("order:42"))
				return nil
			}, guard.NoWait())
			return 7, err
		})
		require.NoError(t, err)
		assert.Equal(t, 7, v)
		_, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t))
		require.NoError(t, err)
		assert.True(t, replayed)
	})
}

func TestOnce_Encoding(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
		raw := guard.Encoding(
			func(v any) ([]byte, error) { return v.([]byte), nil },
			func(data []byte, v any) error { *v.(*[]byte) = data; return nil },
		)
		for i := range 2 {
			got, replayed, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(context.Context) ([]byte, error) { return []byte{0, 255, '\n'}, nil }, raw)
			require.NoError(t, err)
			assert.Equal(t, i > 0, replayed)
			assert.Equal(t, []byte{0, 255, '\n'}, got)
		}
	})
}

func TestOnce_ObserversLearnWhatBecameOfACall(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, r *guardtest.Recorder) {
		one := guard.Fingerprint([]byte("one"))
		_, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(context.Context) (int, error) { return 7, nil }, one)
		require.NoError(t, err)
		assert.Empty(t, r.Events(guard.Replayed))
		_, _, err = guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t), one)
		require.NoError(t, err)
		assert.Len(t, r.Events(guard.Replayed), 1)
		_, _, err = guard.Once(t.Context(), g, testenv.Order, time.Hour, never[int](t), guard.Fingerprint())
		require.Error(t, err)
		assert.Len(t, r.Events(guard.OtherInput), 1)
		waits := r.Observations("WaitEnd")
		require.Len(t, waits, 3)
		assert.Equal(t, guard.OutcomeAcquired, waits[0].Wait.Outcome)
		assert.Equal(t, guard.OutcomeRecorded, waits[1].Wait.Outcome)
		assert.NoError(t, waits[1].Wait.Err)
		assert.Equal(t, guard.OutcomeRecorded, waits[2].Wait.Outcome)
		assert.ErrorIs(t, waits[2].Wait.Err, guard.ErrOtherInput)
	})
}

// Work without a lock has no record, and writes none for a lock around it.
func TestOnce_WithoutALockNothingIsRecorded(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		require.NoError(t, g.WithLock(t.Context(), guard.Key("outer"), func(ctx context.Context) error {
			s.Fail(errDown)
			_, _, err := guard.Once(ctx, g, testenv.Order, time.Hour, func(context.Context) (int, error) { return 7, nil }, guard.FailOpen())
			s.Fail(nil)
			return err
		}))
		for _, key := range []string{"outer", "order:42"} {
			_, replayed, err := guard.Once(t.Context(), g, guard.Key(key), time.Hour, func(context.Context) (int, error) { return 8, nil })
			require.NoError(t, err)
			assert.False(t, replayed, key)
		}
	})
}

// A Guard whose releases are not waited for keeps the result of Once before the caller has it.
func TestOnce_IsKeptBeforeItReturns(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		_, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(context.Context) (int, error) { return 7, nil }, guard.AsyncRelease())
		require.NoError(t, err)
		assert.Equal(t, 1, s.Calls("release"))
	}, guard.AsyncRelease())
}

// Another lock inside hides nothing of what began before.
func TestOnce_EarlierUnderAnotherLock(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		fence := unfinished["context"](t, g, s)
		_, _, err := guard.Once(t.Context(), g, testenv.Order, time.Hour, func(ctx context.Context) (int, error) {
			return 7, g.WithLock(ctx, guard.Key("inner"), func(ctx context.Context) error {
				earlier, ok := guard.Earlier(ctx)
				assert.True(t, ok)
				assert.Equal(t, fence, earlier)
				return nil
			})
		})
		require.NoError(t, err)
	})
}

// answerless loses the replies to claims, after which it does something.
type answerless struct {
	*guardtest.Store
	then func()
}

func (s *answerless) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	_, _ = s.Store.Acquire(ctx, c)
	s.then()
	<-ctx.Done()
	return guardstore.ClaimReply{}, ctx.Err()
}

// A caller leaves whose claim was granted, and never answered. At most once, the next call runs: nothing began.
func TestOnce_AClaimThatIsGivenUpIsNoBeginning(t *testing.T) {
	for name, drop := range map[string]bool{"held": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := guardtest.NewStore()
				g := testenv.GuardOnStore(t, &answerless{s, func() {
					if drop {
						s.Drop("order:42")
					}
				}})
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				_, _, err := guard.Once(ctx, g, testenv.Order, time.Hour, never[int](t))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				synctest.Wait()
				_, replayed, err := guard.Once(t.Context(), testenv.GuardOnStore(t, s), testenv.Order, time.Hour,
					func(context.Context) (int, error) { return 7, nil }, guard.AtMostOnce(), guard.NoWait())
				require.NoError(t, err)
				assert.False(t, replayed)
			})
		})
	}
}
