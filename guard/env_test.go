package guard_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/internal/redistest"
)

// k is the key that most tests lock.
var k = guard.Key("k")

var (
	errDown  = errors.New("down")
	errReply = errors.New("reply lost")
	errBoom  = errors.New("boom")
)

func checkOnce(keep time.Duration, opts ...guard.OnceOption) error {
	return guardhook.CheckOnce(keep, opts)
}

func nothing(context.Context) error { return nil }

// env is a Guard on a store in memory, in virtual time.
type env struct {
	*guard.Guard
	t *testing.T
	s *testenv.Faulty
	r *guardtest.Recorder
}

// bubble runs a test in virtual time. Its Guards are closed at the end.
func bubble(t *testing.T, test func(t *testing.T, g *env), opts ...guard.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, (&env{t: t, s: testenv.NewFaulty()}).another(opts...))
		synctest.Wait()
	})
}

// another is a Guard of another process, on the same store.
func (g *env) another(opts ...guard.Option) *env {
	g.t.Helper()
	r := &guardtest.Recorder{}
	made, err := guard.NewWithStore(g.s, append(opts, guard.Observe(r))...)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { assert.NoError(g.t, made.Close()) })
	return &env{made, g.t, g.s, r}
}

// acquire takes a key; that must succeed.
func (g *env) acquire(ctx context.Context, key string, opts ...guard.LockOption) *guard.Lease {
	g.t.Helper()
	l, err := g.Acquire(ctx, guard.Key(key), opts...)
	require.NoError(g.t, err)
	return l
}

// take acquires k, which must be free.
func (g *env) take(opts ...guard.LockOption) *guard.Lease {
	g.t.Helper()
	return g.acquire(g.t.Context(), "k", append(opts, guard.NoWait())...)
}

// busy asks for k, which must be taken.
func (g *env) busy(opts ...guard.LockOption) *guard.BusyError {
	g.t.Helper()
	_, err := g.Acquire(g.t.Context(), k, append([]guard.LockOption{guard.NoWait()}, opts...)...)
	return as[*guard.BusyError](g.t, err)
}

// lock locks k for nothing.
func (g *env) lock(opts ...guard.LockOption) error {
	return g.WithLock(g.t.Context(), k, nothing, opts...)
}

// free gives leases back.
func (g *env) free(leases ...*guard.Lease) {
	g.t.Helper()
	for _, l := range leases {
		require.NoError(g.t, l.Release(g.t.Context()))
	}
}

// later waits for k in the queue.
func (g *env) later(opts ...guard.LockOption) <-chan *guard.Lease {
	got := make(chan *guard.Lease, 1)
	go func() { got <- g.acquire(g.t.Context(), "k", opts...) }()
	synctest.Wait()
	return got
}

// knowsNothing checks that a Guard remembers neither keys nor claims.
func (g *env) knowsNothing() {
	g.t.Helper()
	assert.Zero(g.t, testenv.Remembered(g.Guard))
}

// keepWatchdog keeps the watchdog from a second on, by the context of another lease, until goOn is called.
func (g *env) keepWatchdog() (goOn func()) {
	keeps := &testenv.KeptContext{Context: g.t.Context()}
	other := g.acquire(keeps, "other", guard.MaxHold(time.Second))
	kept := keeps.Keep()
	return func() {
		kept()
		require.ErrorIs(g.t, other.Release(g.t.Context()), guard.ErrMaxHold)
	}
}

// keptFor is how long a key stays taken.
func (g *env) keptFor(key string) time.Duration {
	g.t.Helper()
	begun := time.Now()
	for g.WithLock(g.t.Context(), guard.Key(key), nothing, guard.NoWait(), guard.MinHold(0)) != nil {
		time.Sleep(time.Millisecond)
	}
	return time.Since(begun)
}

// begin runs a call beside the test until it waits, or has ended.
func begin(call func() error) chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	synctest.Wait()
	return ended
}

// as is an error of a type.
func as[E error](t *testing.T, err error) (e E) {
	t.Helper()
	require.ErrorAs(t, err, &e)
	return e
}

// is checks that an error is some errors, and not others.
func is(t *testing.T, err, want error, not ...error) {
	t.Helper()
	require.ErrorIs(t, err, want)
	for _, other := range not {
		require.NotErrorIs(t, err, other)
	}
}

// never is work that is not to run.
func never(t *testing.T) func(context.Context) error {
	return func(context.Context) error { t.Error("it ran"); return nil }
}

func canceled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// keysOf makes key functions of words.
func keysOf(words string) (keys []guard.KeyFunc) {
	for key := range strings.FieldsSeq(words) {
		keys = append(keys, guard.Key(key))
	}
	return keys
}

// only has something happen at calls of some kinds.
func only(ops string, happen func(ctx context.Context) error) func(context.Context, string, string) error {
	return func(ctx context.Context, op, _ string) error {
		if !slices.Contains(strings.Fields(ops), op) {
			return nil
		}
		return happen(ctx)
	}
}

// silent is a call that is not answered.
func silent(ctx context.Context) error { return errors.Join(errReply, untilDone(ctx)) }

// slowly is a call that takes d.
func slowly(d time.Duration) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// times has something happen at the first n calls of a kind.
func times(n int, wantOp, wantKey string, happen func() error) func(context.Context, string, string) error {
	var mu sync.Mutex
	return func(_ context.Context, op, key string) error {
		mu.Lock()
		hit := op == wantOp && key == wantKey && n > 0
		if hit {
			n--
		}
		mu.Unlock()
		if hit {
			return happen()
		}
		return nil
	}
}

func TestMain(m *testing.M) {
	os.Exit(redistest.Run(m))
}
