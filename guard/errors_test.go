package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestErrors_AreTypedAndTellNothingSecret(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		kind string
		is   []error
		not  []error
	}{
		{&guard.BusyError{Name: "n", Key: "secret", Holder: "secret"}, "lock_busy", []error{guard.ErrBusy}, []error{guard.ErrLost}},
		{&guard.BusyError{Name: "n", Key: "secret", Waited: time.Second}, "lock_wait_timeout", []error{guard.ErrBusy}, nil},
		{&guard.BusyError{Key: "secret", Err: context.Canceled}, "canceled", []error{guard.ErrBusy, context.Canceled}, nil},
		{&guard.BusyError{Key: "secret", Err: context.DeadlineExceeded}, "deadline_exceeded", []error{guard.ErrBusy, context.DeadlineExceeded}, nil},
		{&guard.LostError{Key: "secret", Cause: cause}, "lock_lost", []error{guard.ErrLost, cause}, []error{guard.ErrStore}},
		{&guard.LostError{Key: "secret", Cause: guard.ErrMaxHold}, "lock_max_hold", []error{guard.ErrLost, guard.ErrMaxHold}, nil},
		{&guard.LostError{Key: "secret", Cause: guard.ErrReleased}, "lock_released", []error{guard.ErrLost, guard.ErrReleased}, nil},
		{&guard.LostError{Key: "secret", Cause: guard.ErrClosed}, "lock_lost", []error{guard.ErrLost, guard.ErrClosed}, nil},
		{&guard.StoreError{Op: "acquire", Key: "secret", Err: cause}, "store_unavailable", []error{guard.ErrStore, cause}, nil},
		{&guard.KeyError{Key: "secret", Reason: "empty", Err: cause}, "lock_key_invalid", []error{guard.ErrKey, cause}, nil},
		{&guard.OptionError{Option: "TTL", Reason: "is bad"}, "option_invalid", []error{guard.ErrOption}, []error{guard.ErrKey}},
		{guard.ErrBusy, "lock_busy", nil, nil},
		{guard.ErrLost, "lock_lost", nil, nil},
		{guard.ErrMaxHold, "lock_max_hold", nil, nil},
		{guard.ErrReleased, "lock_released", nil, nil},
		{guard.ErrStore, "store_unavailable", nil, nil},
		{guard.ErrKey, "lock_key_invalid", nil, nil},
		{guard.ErrOption, "option_invalid", nil, nil},
		{guard.ErrClosed, "guard_closed", nil, nil},
		{guard.ErrNoGuard, "no_guard", nil, nil},
	} {
		var typed interface{ ErrorType() string }
		assert.ErrorAs(t, c.err, &typed)
		assert.Equal(t, c.kind, typed.ErrorType())
		assert.NotContains(t, c.err.Error(), "secret")
		assert.NotEmpty(t, c.err.Error())
		for _, target := range c.is {
			assert.ErrorIs(t, c.err, target)
		}
		for _, target := range c.not {
			assert.NotErrorIs(t, c.err, target)
		}
	}
}

// %+v adds the key, and a log line has the fields of an error.
func TestErrors_ShowTheKeyWhenAskedFor(t *testing.T) {
	for want, err := range map[string]error{
		`err.type=lock_wait_timeout err.lock=n err.waited=1s err.retry_after=2s`: &guard.BusyError{Name: "n", Key: "secret", Holder: "secret", Waited: time.Second, RetryAfter: 2 * time.Second},
		`err.type=lock_max_hold err.lock=n`:                                      &guard.LostError{Name: "n", Key: "secret", Cause: guard.ErrMaxHold},
		`err.type=store_unavailable err.lock=n err.op=renew`:                     &guard.StoreError{Op: "renew", Name: "n", Key: "secret", Err: errors.New("cause")},
		`err.type=lock_key_invalid`:                                              &guard.KeyError{Key: "secret", Reason: "too long"},
		`err.type=once_not_kept err.lock=n`:                                      &guard.OnceError{Name: "n", Key: "secret", Err: guard.ErrNotKept},
	} {
		assert.Equal(t, err.Error()+` (key "secret")`, fmt.Sprintf("%+v", err))
		for _, format := range []string{"%v", "%s", "%q", "%#v", "%x"} {
			assert.Equal(t, fmt.Sprintf(format, err.Error()), fmt.Sprintf(format, err))
		}
		var line strings.Builder
		slog.New(slog.NewTextHandler(&line, nil)).Info("x", "err", err)
		assert.Contains(t, line.String(), fmt.Sprintf("err.msg=%q %s\n", err.Error(), want))
		assert.NotContains(t, line.String(), "secret")
	}
	assert.Equal(t, "guard: invalid lock key: empty", fmt.Sprintf("%+v", &guard.KeyError{Reason: "empty"}))
}

func TestName_ErrorsNameTheLockByTheFormatOfItsKey(t *testing.T) {
	calls := 0
	wrapped := func(ctx context.Context) (string, error) { calls++; return guard.Keyf("order:%d", 42)(ctx) }
	for _, c := range []struct {
		key  guard.KeyFunc
		of   []guard.Option
		opts []guard.LockOption
		want string
	}{
		{guard.Keyf("order:%d", 42), nil, nil, "order:*"},
		{guard.Keyf("t:%s:order:%d", "secret", 42), nil, nil, "t:*:order:*"},
		{guard.Stripe(4, guard.Keyf("user:%s", "secret")), nil, nil, "user:*"},
		{guard.Stripe(2, guard.Stripe(4, guard.Keyf("u:%s", "secret"))), nil, nil, "u:*"},
		{guard.Key("order:42"), nil, nil, "default"},
		{guard.Stripe(4, guard.Key("order:42")), nil, nil, "default"},
		{guard.Keyf("order:42"), nil, nil, "default"},
		{wrapped, nil, nil, "default"},
		{guard.Stripe(4, wrapped), nil, nil, "default"},
		{guard.Keyf("order:%d", 42), nil, []guard.LockOption{guard.Name("pay")}, "pay"},
		{guard.Keyf("order:%d", 42), []guard.Option{guard.Name("payments")}, nil, "payments"},
	} {
		bubble(t, func(t *testing.T, g *rig) {
			calls = 0
			require.NoError(t, g.WithLock(t.Context(), c.key, func(context.Context) error {
				assert.LessOrEqual(t, calls, 1, "a key is not asked for its name")
				busy := as[*guard.BusyError](t, g.WithLocks(t.Context(), []guard.KeyFunc{c.key}, nothing, append(c.opts, guard.NoWait())...))
				assert.Equal(t, c.want, busy.Name)
				assert.EqualError(t, busy, fmt.Sprintf("guard: lock %q is busy", c.want))
				assert.Same(t, errBoom, g.another(c.of...).Lead(t.Context(), guard.Keyf("lead:%d", 7), func(ctx context.Context) error {
					l, _ := guard.FromContext(ctx)
					assert.Equal(t, c.opts == nil && c.of == nil, l.Name() == "lead:*")
					return errBoom
				}, c.opts...))
				return nil
			}))
		}, c.of...)
	}
}

func TestName_LossesAndFailuresNameTheLockByItsFormat(t *testing.T) {
	bubble(t, func(t *testing.T, g *rig) {
		l, err := g.Acquire(t.Context(), guard.Keyf("order:%d", 42))
		require.NoError(t, err)
		g.s.Drop("order:42")
		require.ErrorContains(t, l.Check(t.Context()), `guard: lock "order:*" was lost: `)

		keys := []guard.KeyFunc{guard.Keyf("stock:%s", "a"), guard.Keyf("o:%d", 1), guard.Key("z"), guard.Keyf("%s:1", "o")}
		ls, err := g.AcquireAll(t.Context(), keys)
		require.NoError(t, err)
		_, err = g.AcquireAll(t.Context(), keys[:2], guard.NoWait())
		require.EqualError(t, err, `guard: lock "o:*" is busy`)
		require.NoError(t, ls.Release(t.Context()))
		names := ""
		for _, o := range g.r.Observations("HoldStart", "HoldEnd") {
			names += o.Lock.Name + " "
		}
		assert.Equal(t, "order:* order:* o:* stock:* default default stock:* o:* ", names)

		g.s.Fail(&guardstore.RefusedError{Err: errors.New("OOM")})
		_, err = g.Acquire(t.Context(), guard.Keyf("stock:%s", "secret"))
		require.EqualError(t, err, `guard: lock store is unavailable: acquire of lock "stock:*": OOM`)
		_, err = g.AcquireAll(t.Context(), []guard.KeyFunc{guard.Keyf("both:%s", "secret"), guard.Keyf("both:%s", "x")})
		require.EqualError(t, err, `guard: lock store is unavailable: acquire of lock "both:*": OOM`)
		require.EqualError(t, g.Ping(t.Context()), "guard: lock store is unavailable: ping: OOM")
	})
}

const (
	secretKey  = "iban:DE02120300000000202051"
	secretMeta = "teller-4711"
)

// eavesdropper reads the texts of all errors: those of calls, and those that observers get.
type eavesdropper struct {
	guard.NopObserver
	mu      sync.Mutex
	texts   []string
	secrets []string
}

func (e *eavesdropper) hear(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.texts = append(e.texts, err.Error())
	}
}

func (e *eavesdropper) WaitEnd(_ context.Context, _ guard.Lock, r guard.WaitResult) { e.hear(r.Err) }

func (e *eavesdropper) HoldEnd(_ context.Context, _ guard.Lock, r guard.HoldResult) { e.hear(r.Err) }

func (e *eavesdropper) Event(_ context.Context, _ guard.Lock, ev guard.Event) { e.hear(ev.Err) }

// take holds the key; its owner is a secret.
func (e *eavesdropper) take(t *testing.T, g *guard.Guard, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	l, err := g.Acquire(t.Context(), guard.Key(secretKey), opts...)
	require.NoError(t, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secrets = append(e.secrets, l.Owner(), testenv.InstanceOf(l.Owner()))
	return l
}

func (e *eavesdropper) heardNothing(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NotEmpty(t, e.texts)
	for _, text := range e.texts {
		for _, secret := range e.secrets {
			assert.NotContains(t, text, secret)
		}
	}
}

func TestSecret_ErrorsTellNothingSecret(t *testing.T) {
	t.Parallel()
	lock := func(t *testing.T, g *guard.Guard, opts ...guard.LockOption) error {
		return g.WithLock(t.Context(), guard.Key(secretKey), nothing, opts...)
	}
	for name, p := range map[string]struct {
		want error
		how  func(t *testing.T, s *redistest.Server, rdb *redis.Client, g *guard.Guard, e *eavesdropper) error
	}{
		"waited in vain": {guard.ErrBusy, func(t *testing.T, _ *redistest.Server, rdb *redis.Client, g *guard.Guard, e *eavesdropper) error {
			e.take(t, g)
			return lock(t, testenv.GuardOn(t, rdb, guard.Observe(e)), guard.Wait(100*time.Millisecond))
		}},
		"Redis is gone": {guard.ErrStore, func(t *testing.T, s *redistest.Server, _ *redis.Client, g *guard.Guard, _ *eavesdropper) error {
			s.Kill()
			return lock(t, g)
		}},
		"Redis is silent": {guard.ErrStore, func(t *testing.T, s *redistest.Server, _ *redis.Client, g *guard.Guard, _ *eavesdropper) error {
			require.NoError(t, s.Pause())
			return lock(t, g)
		}},
		"a key of another type": {guard.ErrBusy, func(t *testing.T, _ *redistest.Server, rdb *redis.Client, g *guard.Guard, _ *eavesdropper) error {
			require.NoError(t, rdb.Set(t.Context(), testenv.LockOf(secretKey), "x", 0).Err())
			return lock(t, g, guard.NoWait())
		}},
		"a queue of another type": {guard.ErrStore, func(t *testing.T, _ *redistest.Server, rdb *redis.Client, g *guard.Guard, e *eavesdropper) error {
			e.take(t, g)
			require.NoError(t, rdb.Set(t.Context(), testenv.LockOf(secretKey)+":queue", secretMeta, 0).Err())
			return lock(t, testenv.GuardOn(t, rdb, guard.Observe(e)))
		}},
		"no memory": {guard.ErrStore, func(t *testing.T, _ *redistest.Server, rdb *redis.Client, g *guard.Guard, _ *eavesdropper) error {
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			return lock(t, g)
		}},
		"no right to the key": {guard.ErrStore, func(t *testing.T, s *redistest.Server, rdb *redis.Client, _ *guard.Guard, e *eavesdropper) error {
			require.NoError(t, rdb.Do(t.Context(), "acl", "setuser", "u", "on", ">pw", "~other", "+@all").Err())
			u := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "u", "pw" })
			return lock(t, testenv.GuardOn(t, u, guard.Observe(e), guard.Metadata(secretMeta)))
		}},
		"another password": {guard.ErrStore, func(t *testing.T, s *redistest.Server, _ *redis.Client, _ *guard.Guard, e *eavesdropper) error {
			e.secrets = append(e.secrets, "not-the-password")
			u := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "u", "not-the-password" })
			return lock(t, testenv.GuardOn(t, u, guard.Observe(e), guard.StoreTimeout(500*time.Millisecond)))
		}},
		"too long a key": {guard.ErrKey, func(t *testing.T, _ *redistest.Server, _ *redis.Client, g *guard.Guard, _ *eavesdropper) error {
			return g.WithLock(t.Context(), guard.Key(strings.Repeat(secretKey, 50)), nothing)
		}},
		"a key that is no text": {guard.ErrKey, func(t *testing.T, _ *redistest.Server, _ *redis.Client, g *guard.Guard, _ *eavesdropper) error {
			return g.WithLock(t.Context(), guard.Key(secretKey+"\xff"), nothing)
		}},
		"a key that does not fit its format": {guard.ErrKey, func(t *testing.T, _ *redistest.Server, _ *redis.Client, g *guard.Guard, _ *eavesdropper) error {
			return g.WithLock(t.Context(), guard.Keyf("order:%d", secretKey), nothing)
		}},
		"too few replicas": {guard.ErrStore, func(t *testing.T, _ *redistest.Server, rdb *redis.Client, _ *guard.Guard, e *eavesdropper) error {
			return lock(t, testenv.GuardOn(t, rdb, guard.Replicas(1, 50*time.Millisecond), guard.StoreTimeout(500*time.Millisecond),
				guard.Observe(e), guard.Metadata(secretMeta)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := redistest.Start(t), &eavesdropper{secrets: []string{secretKey, secretMeta}}
			g := testenv.GuardOn(t, s.Client(t), guard.Observe(e), guard.Metadata(secretMeta), guard.StoreTimeout(500*time.Millisecond))
			err := p.how(t, s, s.Client(t), g, e)
			require.ErrorIs(t, err, p.want)
			e.hear(err)
			e.heardNothing(t)
		})
	}
}

func TestSecret_ErrorsOfAQuorumTellNothingSecret(t *testing.T) {
	t.Parallel()
	q, e := testenv.NewQuorumEnv(t, 3), &eavesdropper{secrets: []string{secretKey, secretMeta}}
	opts := []guard.Option{guard.Observe(e), guard.Metadata(secretMeta), guard.StoreTimeout(500 * time.Millisecond)}
	g, other := q.Guard(t, opts...), q.Guard(t, opts...)
	l := e.take(t, g, guard.TTL(time.Second))
	err := other.WithLock(t.Context(), guard.Key(secretKey), nothing, guard.Wait(100*time.Millisecond))
	require.ErrorIs(t, err, guard.ErrBusy)
	e.hear(err)
	q.Servers[0].Kill()
	q.Servers[1].Kill()
	testenv.Await(t, l.Context().Done())
	require.ErrorIs(t, l.Err(), guard.ErrLost)
	err = other.WithLock(t.Context(), guard.Key(secretKey), nothing)
	require.ErrorIs(t, err, guard.ErrStore)
	e.hear(errors.Join(err, l.Err()))
	e.heardNothing(t)
}
