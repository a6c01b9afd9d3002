package guard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

func TestOptions_OutOfBoundsNameTheOption(t *testing.T) {
	for name, opt := range map[string]guard.LockOption{
		"TTL 0":        guard.TTL(0),
		"TTL 1ns":      guard.TTL(1),
		"TTL 99ms":     guard.TTL(99 * time.Millisecond),
		"TTL 25h":      guard.TTL(25 * time.Hour),
		"TTL -1s":      guard.TTL(-time.Second),
		"Wait":         guard.Wait(-1),
		"DefaultWait":  guard.DefaultWait(-1),
		"MaxHold":      guard.MaxHold(-1),
		"Name":         guard.Name(""),
		"Metadata":     guard.Metadata(strings.Repeat("m", 257)),
		"Metadata bin": guard.Metadata("\xff"),
		"MetadataFunc": guard.MetadataFunc(nil),
	} {
		t.Run(name, func(t *testing.T) {
			want := strings.Fields(name)[0]
			check := func(err error) {
				var optErr *guard.OptionError
				require.ErrorAs(t, err, &optErr)
				assert.Equal(t, want, optErr.Option)
				require.ErrorIs(t, err, guard.ErrOption)
				assert.Contains(t, err.Error(), want)
			}
			check(guard.CheckOptions(opt))
			_, err := guard.NewWithStore(guardtest.NewStore(), opt)
			check(err)
			g := guardtest.NewGuard(t)
			check(g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error {
				t.Error("ran")
				return nil
			}, opt))
			_, err = g.Acquire(t.Context(), guard.Key("k"), opt)
			check(err)
		})
	}
	for name, opt := range map[string]guard.Option{
		"Prefix":       guard.Prefix("a{b"),
		"Prefix empty": guard.Prefix(""),
		"Observe":      guard.Observe(nil),
		"StoreTimeout": guard.StoreTimeout(time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := guard.NewWithStore(guardtest.NewStore(), opt)
			var optErr *guard.OptionError
			require.ErrorAs(t, err, &optErr)
			assert.Equal(t, strings.Fields(name)[0], optErr.Option)
		})
	}
}

func TestOptions_AtTheirBoundsAreTaken(t *testing.T) {
	require.NoError(t, guard.CheckOptions(
		guard.TTL(guard.MinTTL), guard.TTL(guard.MaxTTL), guard.Wait(0), guard.Wait(guard.Forever),
		guard.MaxHold(0), guard.Metadata(strings.Repeat("m", 256)), nil,
	))
	g, err := guard.NewWithStore(guardtest.NewStore(), nil, guard.TTL(time.Second))
	require.NoError(t, err)
	require.NoError(t, g.Close())
}

// ttls notes the ttl of each claim.
type ttls struct {
	*guardtest.Store
	seen []time.Duration
}

func (s *ttls) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	s.seen = append(s.seen, c.TTL)
	return s.Store.Acquire(ctx, c)
}

// Stores count milliseconds: what a Guard believes of a ttl is what the store does.
func TestOptions_ATTLIsCutToWholeMilliseconds(t *testing.T) {
	s := &ttls{Store: guardtest.NewStore()}
	g, err := guard.NewWithStore(s)
	require.NoError(t, err)
	ttl := guard.TTL(100*time.Millisecond + 900*time.Microsecond)
	require.NoError(t, g.WithLock(t.Context(), guard.Key("k"), func(context.Context) error { return nil }, ttl))
	assert.Equal(t, []time.Duration{100 * time.Millisecond}, s.seen)
	require.NoError(t, g.Close())
}

func TestOptions_NilArgumentsAreErrors(t *testing.T) {
	var optErr *guard.OptionError
	_, err := guard.New(nil)
	require.ErrorAs(t, err, &optErr)
	_, err = guard.New((*redis.Client)(nil))
	require.ErrorAs(t, err, &optErr)
	_, err = guard.NewWithStore(nil)
	require.ErrorAs(t, err, &optErr)

	g := guardtest.NewGuard(t)
	require.ErrorAs(t, g.WithLock(t.Context(), guard.Key("k"), nil), &optErr)
	_, err = guard.Do[int](t.Context(), g, guard.Key("k"), nil)
	require.ErrorAs(t, err, &optErr)

	var none *guard.Guard
	run := func(context.Context) error { t.Error("ran"); return nil }
	require.ErrorIs(t, none.WithLock(t.Context(), guard.Key("k"), run), guard.ErrNoGuard)
	_, err = none.Acquire(t.Context(), guard.Key("k"))
	require.ErrorIs(t, err, guard.ErrNoGuard)
}

func TestOptions_PrecedenceOfWaits(t *testing.T) {
	holder := guardtest.NewStore()
	g, err := guard.NewWithStore(holder)
	require.NoError(t, err)
	defer func() { assert.NoError(t, g.Close()) }()
	l, err := g.Acquire(t.Context(), guard.Key("k"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Release(t.Context())) }()

	waited := func(opts []guard.Option, call ...guard.LockOption) string {
		g, err := guard.NewWithStore(holder, opts...)
		require.NoError(t, err)
		defer func() { assert.NoError(t, g.Close()) }()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = g.Acquire(ctx, guard.Key("k"), call...)
		var busy *guard.BusyError
		require.ErrorAs(t, err, &busy)
		return busy.ErrorType()
	}
	assert.Equal(t, "deadline_exceeded", waited(nil), "the default waits for ctx")
	assert.Equal(t, "lock_busy", waited(nil, guard.DefaultWait(0)))
	assert.Equal(t, "lock_wait_timeout", waited([]guard.Option{guard.Wait(time.Millisecond)}, guard.DefaultWait(0)))
	assert.Equal(t, "lock_busy", waited([]guard.Option{guard.Wait(time.Millisecond)}, guard.NoWait(), guard.DefaultWait(time.Hour)))
	assert.Equal(t, "lock_busy", waited([]guard.Option{guard.NoWait()}, guard.DefaultWait(time.Hour)))
}
