package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
)

// What nobody made, or nobody gave, is an error that says so: never a panic, and never work
// without a lock.
func TestZero_AndNil(t *testing.T) {
	never := func(context.Context) error { t.Error("ran"); return nil }
	nothingOf := func(context.Context) (int, error) { t.Error("ran"); return 0, nil }
	var noGuard *guard.Guard
	var zeroGuard guard.Guard
	var noContext context.Context
	var noKey guard.KeyFunc
	g, ctx := guardtest.NewGuard(t, nil, guard.NoWait(), nil), t.Context()
	unmade := guard.WithGuard(ctx, &zeroGuard)

	acquire := func(g *guard.Guard, ctx context.Context, key guard.KeyFunc, opts ...guard.LockOption) error {
		l, err := g.Acquire(ctx, key, opts...)
		assert.Nil(t, l)
		return err
	}
	do := func(g *guard.Guard, ctx context.Context, key guard.KeyFunc) error {
		n, err := guard.Do(ctx, g, key, nothingOf)
		assert.Zero(t, n)
		return err
	}
	made := func(g *guard.Guard, err error) error {
		assert.Nil(t, g)
		return err
	}
	for name, test := range map[string]struct {
		run   func() error
		want  error
		names string
	}{
		"nil Guard, WithLock":       {func() error { return noGuard.WithLock(ctx, testenv.Order, never) }, guard.ErrNoGuard, "no Guard"},
		"nil Guard, Acquire":        {func() error { return acquire(noGuard, ctx, testenv.Order) }, guard.ErrNoGuard, "no Guard"},
		"nil Guard, Do":             {func() error { return do(nil, ctx, testenv.Order) }, guard.ErrNoGuard, "no Guard"},
		"zero Guard, WithLock":      {func() error { return zeroGuard.WithLock(ctx, testenv.Order, never) }, guard.ErrNoGuard, "New"},
		"zero Guard, options":       {func() error { return zeroGuard.WithLock(ctx, testenv.Order, never, guard.FailOpen(), nil) }, guard.ErrNoGuard, "New"},
		"zero Guard, Acquire":       {func() error { return acquire(&zeroGuard, ctx, testenv.Order) }, guard.ErrNoGuard, "New"},
		"zero Guard, Do":            {func() error { return do(&zeroGuard, ctx, testenv.Order) }, guard.ErrNoGuard, "New"},
		"zero Guard in the context": {func() error { return guard.WithLock(unmade, testenv.Order, never) }, guard.ErrNoGuard, "New"},
		"zero Guard, Close":         {zeroGuard.Close, nil, ""},
		"zero Guard, Shutdown":      {func() error { return zeroGuard.Shutdown(ctx) }, nil, ""},
		"nil Guard, Shutdown":       {func() error { return noGuard.Shutdown(noContext) }, nil, ""},
		"nil context, WithLock":     {func() error { return g.WithLock(noContext, testenv.Order, never) }, guard.ErrOption, "ctx is nil"},
		"nil context, Acquire":      {func() error { return acquire(g, noContext, testenv.Order) }, guard.ErrOption, "ctx is nil"},
		"nil context, Do":           {func() error { return do(g, noContext, testenv.Order) }, guard.ErrOption, "ctx is nil"},
		"nil context and no Guard":  {func() error { return guard.WithLock(noContext, testenv.Order, never) }, guard.ErrNoGuard, "no Guard"},
		"nil key function":          {func() error { return g.WithLock(ctx, nil, never) }, guard.ErrKey, "no key function"},
		"nil KeyFunc":               {func() error { return acquire(g, ctx, noKey) }, guard.ErrKey, "no key function"},
		"nil work":                  {func() error { return g.WithLock(ctx, testenv.Order, nil) }, guard.ErrOption, "fn is nil"},
		"nil Observer":              {func() error { return made(guard.NewWithStore(guardtest.NewStore(), guard.Observe(nil))) }, guard.ErrOption, "Observe"},
		"nil Observer of a type": {func() error {
			return made(guard.NewWithStore(guardtest.NewStore(), guard.Observe((*guard.NopObserver)(nil))))
		}, guard.ErrOption, "Observe"},
		"nil MetadataFunc":    {func() error { return acquire(g, ctx, testenv.Order, guard.MetadataFunc(nil)) }, guard.ErrOption, "MetadataFunc"},
		"nil Store":           {func() error { return made(guard.NewWithStore(nil)) }, guard.ErrOption, "store is nil"},
		"nil Store of a type": {func() error { return made(guard.NewWithStore((*guardtest.Store)(nil))) }, guard.ErrOption, "store is nil"},
		"nil client":          {func() error { return made(guard.New(nil)) }, guard.ErrOption, "client is nil"},
		"nil clients": {func() error {
			_, err := quorum.New(nil)
			return err
		}, guard.ErrOption, "clients"},
		"Prefix of a store":   {func() error { return made(guard.NewWithStore(guardtest.NewStore(), guard.Prefix("p"))) }, guard.ErrOption, "Prefix is for New"},
		"Replicas of a store": {func() error { return made(guard.NewWithStore(guardtest.NewStore(), guard.Replicas(1, time.Second))) }, guard.ErrOption, "Replicas is for New"},
		"nil options":         {func() error { return guard.CheckOptions(nil, nil) }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.run()
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, test.want)
			assert.ErrorContains(t, err, test.names)
		})
	}

	_, found := guard.FromContext(noContext)
	assert.False(t, found)
	_, found = guard.Held(noContext, "order:42")
	assert.False(t, found)
	_, found = guard.Fence(noContext)
	assert.False(t, found)
	assert.NoError(t, g.WithLock(guard.WithGuard(ctx, nil), testenv.Order, testenv.Nothing, nil, guard.TTL(guard.MinTTL), nil))
}

func TestZero_ANilContextBoundsNothing(t *testing.T) {
	var noContext context.Context
	g := guardtest.NewGuard(t)
	l, err := g.Acquire(t.Context(), testenv.Order)
	require.NoError(t, err)
	require.NoError(t, l.Release(noContext))
	require.ErrorIs(t, l.Err(), guard.ErrReleased)
	require.NoError(t, g.Shutdown(noContext))
	require.ErrorIs(t, g.WithLock(t.Context(), testenv.Order, testenv.Nothing), guard.ErrClosed)
}
