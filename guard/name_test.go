package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// busyWith holds key, and gives the error of another call for it, in which others hold it.
func busyWith(t *testing.T, g *guard.Guard, key guard.KeyFunc, opts ...guard.LockOption) *guard.BusyError {
	t.Helper()
	held, err := g.Acquire(t.Context(), key)
	require.NoError(t, err)
	defer func() { assert.NoError(t, held.Release(t.Context())) }()
	_, err = g.Acquire(t.Context(), key, append(opts, guard.NoWait())...)
	busy := (*guard.BusyError)(nil)
	require.ErrorAs(t, err, &busy)
	return busy
}

func TestName_ErrorsNameTheLockByTheFormatOfItsKey(t *testing.T) {
	wrapped := func(ctx context.Context) (string, error) { return guard.Keyf("order:%d", 42)(ctx) }
	for name, c := range map[string]struct {
		key  guard.KeyFunc
		opts []guard.LockOption
		want string
	}{
		"a format":                {guard.Keyf("order:%d", 42), nil, "order:*"},
		"two values":              {guard.Keyf("t:%s:order:%d", "secret", 42), nil, "t:*:order:*"},
		"stripes of a format":     {guard.Stripe(4, guard.Keyf("user:%s", "secret")), nil, "user:*"},
		"stripes of stripes":      {guard.Stripe(2, guard.Stripe(4, guard.Keyf("u:%s", "secret"))), nil, "u:*"},
		"a literal key":           {guard.Key("order:42"), nil, "default"},
		"stripes of a literal":    {guard.Stripe(4, guard.Key("order:42")), nil, "default"},
		"a format without a verb": {guard.Keyf("order:42"), nil, "default"},
		"a function around Keyf":  {wrapped, nil, "default"},
		"Name":                    {guard.Keyf("order:%d", 42), []guard.LockOption{guard.Name("pay")}, "pay"},
	} {
		t.Run(name, func(t *testing.T) {
			busy := busyWith(t, guardtest.NewGuard(t), c.key, c.opts...)
			assert.Equal(t, c.want, busy.Name)
			assert.EqualError(t, busy, fmt.Sprintf("guard: lock %q is busy", c.want))
		})
	}
}

func TestName_TheNameOfAGuardIsBeforeTheFormat(t *testing.T) {
	g := guardtest.NewGuard(t, guard.Name("payments"))
	assert.Equal(t, "payments", busyWith(t, g, guard.Keyf("order:%d", 42)).Name)
}

func TestName_LossesAndFailuresNameTheLockByItsFormat(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, r *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), guard.Keyf("order:%d", 42))
		require.NoError(t, err)
		s.Drop("order:42")
		require.ErrorContains(t, l.Check(t.Context()), `guard: lock "order:*" was lost: `)

		s.Fail(&guardstore.RefusedError{Err: errors.New("OOM")})
		_, err = g.Acquire(t.Context(), guard.Keyf("stock:%s", "secret"))
		require.EqualError(t, err, `guard: lock store is unavailable: acquire of lock "stock:*": OOM`)
		_, err = g.AcquireAll(t.Context(), []guard.KeyFunc{guard.Keyf("both:%s", "secret"), guard.Keyf("both:%s", "x")})
		require.EqualError(t, err, `guard: lock store is unavailable: acquire of lock "both:*": OOM`)
		require.EqualError(t, g.Ping(t.Context()), "guard: lock store is unavailable: ping: OOM")

		for _, o := range r.Observations("HoldStart") {
			assert.Equal(t, "order:*", o.Lock.Name)
		}
		require.NotEmpty(t, r.Observations("HoldStart"))
	})
}

func TestName_SeveralLocksAreNamedEachByItsOwnFormat(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, r *guardtest.Recorder) {
		keys := []guard.KeyFunc{
			guard.Keyf("stock:%s", "a"), guard.Keyf("order:%d", 1), guard.Key("all"), guard.Keyf("ord%s:1", "er"),
		}
		ls, err := g.AcquireAll(t.Context(), keys)
		require.NoError(t, err)
		names := map[string]string{}
		for _, l := range ls.All() {
			names[l.Key()] = l.Name()
		}
		assert.Equal(t, map[string]string{"stock:a": "stock:*", "order:1": "order:*", "all": "default"}, names)

		_, err = g.AcquireAll(t.Context(), keys[:2], guard.NoWait())
		require.EqualError(t, err, `guard: lock "order:*" is busy`)
		require.NoError(t, ls.Release(t.Context()))
		for _, o := range r.Observations("HoldEnd") {
			assert.Equal(t, names[o.Lock.Key], o.Lock.Name)
		}
	})
}

func TestName_ALeaderIsNamedByTheFormatOfItsKey(t *testing.T) {
	for want, opts := range map[string][]guard.LockOption{"shard:*": nil, "lead": {guard.Name("lead")}} {
		testenv.Bubble(t, func(t *testing.T, g *guard.Guard, _ *guardtest.Store, _ *guardtest.Recorder) {
			boom := errors.New("boom")
			err := g.Lead(t.Context(), guard.Keyf("shard:%d", 7), func(ctx context.Context) error {
				l, _ := guard.FromContext(ctx)
				assert.Equal(t, want, l.Name())
				return boom
			}, opts...)
			require.ErrorIs(t, err, boom)
			synctest.Wait()
		})
	}
}

// A KeyFunc of the caller is called once, with the context of the call, whatever its name.
func TestName_AKeyFuncIsNotCalledForItsName(t *testing.T) {
	type mark struct{}
	ctx := context.WithValue(t.Context(), mark{}, true)
	calls := 0
	key := func(ctx context.Context) (string, error) {
		calls++
		assert.Equal(t, true, ctx.Value(mark{}))
		return "order:42", nil
	}
	nothing := func(context.Context) error { return nil }
	g := guardtest.NewGuard(t)
	require.NoError(t, g.WithLock(ctx, key, nothing))
	require.NoError(t, g.WithLock(ctx, guard.Stripe(4, key), nothing))
	require.NoError(t, g.WithLocks(ctx, []guard.KeyFunc{key}, nothing))
	assert.Equal(t, 3, calls)
}
