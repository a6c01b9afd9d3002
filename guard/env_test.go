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
	"github.com/redlatch/redlatch/guard/guardstore"
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
	s *store
	r *guardtest.Recorder
}

// bubble runs a test in virtual time. Its Guards are closed at the end.
func bubble(t *testing.T, test func(t *testing.T, g *env), opts ...guard.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, (&env{t: t, s: &store{
			Store: guardtest.NewStore(), claims: map[string]guardstore.Claim{}, fences: map[string]uint64{}, releases: map[string]guardstore.Release{},
		}}).another(opts...))
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

// noneHeld checks that no owner holds or wants any of the keys.
func (s *store) noneHeld(t *testing.T, keys string) {
	t.Helper()
	for key := range strings.FieldsSeq(keys) {
		assert.Equal(t, 0, s.Depth(key), key)
		assert.Empty(t, s.Queue(key), key)
	}
}

// store is one on which a test has something happen before a call, or lose its reply. The calls are acquire, release,
// forget, renew, and depth for a renewal that moves no expiry.
type store struct {
	*guardtest.Store
	mu            sync.Mutex
	before, after func(ctx context.Context, op, key string) error
	claims        map[string]guardstore.Claim   // the last one of each key
	fences        map[string]uint64             // that of the last reply
	releases      map[string]guardstore.Release // the last one of each key
}

func (s *store) trouble(before, after func(ctx context.Context, op, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// last is the last claim for a key, and the fence that it was granted with.
func (s *store) last(key string) (guardstore.Claim, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[key], s.fences[key]
}

// released is the last release of a key.
func (s *store) released(key string) guardstore.Release {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.releases[key]
}

// outcome is what the last release of a key wrote.
func (s *store) outcome(key string) guardstore.Outcome { return *s.released(key).Record }

func (s *store) call(ctx context.Context, op, key string, do func()) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, op, key); err != nil {
			return err
		}
	}
	do()
	if after != nil {
		return after(ctx, op, key)
	}
	return nil
}

func (s *store) Acquire(ctx context.Context, c guardstore.Claim) (r guardstore.ClaimReply, err error) {
	if lost := s.call(ctx, "acquire", c.Key, func() {
		r, err = s.Store.Acquire(ctx, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.claims[c.Key], s.fences[c.Key] = c, r.Fence
	}); lost != nil {
		return guardstore.ClaimReply{}, lost
	}
	return r, err
}

func (s *store) Release(ctx context.Context, c guardstore.Release) (r guardstore.ReleaseReply, err error) {
	if lost := s.call(ctx, "release", c.Key, func() {
		r, err = s.Store.Release(ctx, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.releases[c.Key] = c
	}); lost != nil {
		return guardstore.ReleaseReply{}, lost
	}
	return r, err
}

func (s *store) Forget(ctx context.Context, f guardstore.Forget) (status guardstore.ForgetStatus, err error) {
	if lost := s.call(ctx, "forget", f.Key, func() { status, err = s.Store.Forget(ctx, f) }); lost != nil {
		return 0, lost
	}
	return status, err
}

func (s *store) Renew(ctx context.Context, batch []guardstore.Grant) (r []guardstore.RenewReply) {
	op := "renew"
	if batch[0].TTL == 0 {
		op = "depth"
	}
	if lost := s.call(ctx, op, batch[0].Key, func() { r = s.Store.Renew(ctx, batch) }); lost != nil {
		return slices.Repeat([]guardstore.RenewReply{{Err: lost}}, len(batch))
	}
	return r
}

// only has something happen at one kind of call.
func only(op string, happen func(ctx context.Context) error) func(context.Context, string, string) error {
	return func(ctx context.Context, is, _ string) error {
		if is != op {
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
