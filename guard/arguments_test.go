package guard_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
	"github.com/redlatch/redlatch/guard/quorum"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Every entry refuses an option out of its bounds, names it, and asks the store nothing.
func TestOptions_OutOfBoundsNameTheOption(t *testing.T) {
	type some = []guard.LockOption
	bubble(t, func(t *testing.T, g *env) {
		for _, row := range []struct {
			want string
			opts some
		}{
			{"TTL 0s is outside 100ms to 24h0m0s", some{guard.TTL(0)}},
			{"TTL 99ms is outside 100ms to 24h0m0s", some{guard.TTL(99 * time.Millisecond)}},
			{"TTL 24h0m0.000000001s is outside 100ms to 24h0m0s", some{guard.TTL(24*time.Hour + 1)}},
			{"Wait ", some{guard.Wait(-1)}},
			{"DefaultWait ", some{guardhook.DefaultWait(-1).(guard.LockOption)}},
			{"MaxHold -1ns is negative", some{guard.MaxHold(-1)}},
			{"Wait 30ns is less than 1ms: give it a unit, such as 30*time.Second", some{guard.Wait(30)}},
			{"MaxHold 30ns is less than 1ms: give it a unit, such as 30*time.Second", some{guard.MaxHold(30)}},
			{"MinHold 30ns is less than 1ms: give it a unit, such as 30*time.Second", some{guard.MinHold(30)}},
			{"Name ", some{guard.Name("")}},
			{"Metadata ", some{guard.Metadata(strings.Repeat("m", 257))}},
			{"Metadata ", some{guard.Metadata("\xff")}},
			{"MinHold -1ns is outside 0s to 24h0m0s", some{guard.MinHold(-1)}},
			{"MinHold 24h0m0.000000001s is outside 0s to 24h0m0s", some{guard.MinHold(24*time.Hour + 1)}},
			{"MinHold 2s is longer than MaxHold, 1s", some{guard.MinHold(2 * time.Second), guard.MaxHold(time.Second)}},
			{"MinHold 2s is longer than MaxHold, 1s", some{guard.MaxHold(time.Second), guard.MinHold(2 * time.Second)}},
			{"MinHold does not go with Limit or Shared: it keeps the whole key", some{guard.MinHold(time.Second), guard.Limit(2)}},
			{"Limit 0 is outside 1 to 10000", some{guard.Limit(0)}},
			{"Limit 10001 is outside 1 to 10000", some{guard.Limit(10_001)}},
			{"Limit does not go with Shared: say one of them", some{guard.Limit(2), guard.Shared()}},
			{"Limit does not go with Shared: say one of them", some{guard.Shared(), guard.Limit(1)}},
		} {
			err := guardhook.CheckOptions(row.opts)
			assert.Equal(t, strings.Fields(row.want)[0], as[*guard.OptionError](t, err).Option)
			require.True(t, strings.HasPrefix(err.Error(), "guard: "+row.want), err)
			require.EqualError(t, g.WithLock(t.Context(), k, never(t), row.opts...), err.Error())
			_, other := g.Acquire(t.Context(), k, row.opts...)
			require.EqualError(t, other, err.Error())
			require.EqualError(t, g.WithLocks(t.Context(), keysOf("a b"), never(t), row.opts...), err.Error())
			require.ErrorIs(t, g.Lead(t.Context(), k, never(t), row.opts...), guard.ErrOption)
			all := make([]guard.Option, len(row.opts))
			for i, opt := range row.opts {
				all[i] = opt
			}
			_, other = guard.NewWithStore(g.s, all...)
			require.ErrorIs(t, other, guard.ErrOption)
		}
		_, err := guard.NewWithStore(g.s, guard.MetadataFunc(nil))
		require.EqualError(t, err, "guard: MetadataFunc was given a nil function")
		assert.Zero(t, g.s.Calls("acquire"))
		require.ErrorIs(t, g.another(guard.MaxHold(time.Second)).lock(guard.MinHold(time.Minute)), guard.ErrOption, "the Guard's MaxHold counts")
	})
}

func TestOptions_AtTheirBoundsAreTaken(t *testing.T) {
	for _, opts := range [][]guard.LockOption{
		{guard.TTL(100 * time.Millisecond), guard.TTL(24 * time.Hour), guard.Wait(0), guard.Wait(guard.Forever), nil},
		{guard.MaxHold(0), guard.Metadata(strings.Repeat("m", 256)), guard.Limit(1), guard.Limit(10_000)},
		{guard.MinHold(24 * time.Hour)},
		{guard.MinHold(time.Second), guard.MaxHold(time.Second)},
		{guard.MaxHold(time.Second), guard.MinHold(2 * time.Second), guard.MaxHold(time.Minute)},
		{guard.MinHold(time.Second), guard.MaxHold(0)},
	} {
		require.NoError(t, guardhook.CheckOptions(opts))
	}
}

func TestOptions_OfAGuard(t *testing.T) {
	for _, row := range []struct {
		opt  guard.Option
		want string
	}{
		{guard.Prefix("a{b"), "Prefix"},
		{guard.Prefix(""), "Prefix"},
		{guard.Prefix("p"), "Prefix is for New"},
		{guard.Replicas(1, time.Second), "Replicas is for New"},
		{guard.Observe(nil), "Observe"},
		{guard.Observe((*guard.NopObserver)(nil)), "Observe"},
		{guard.StoreTimeout(10*time.Millisecond - 1), "StoreTimeout 9.999999ms is less than 10ms"},
		{guard.StoreTimeout(10 * time.Millisecond), ""},
		{guard.Replicas(0, time.Second), "Replicas 0 is less than 1"},
		{guard.Replicas(1, time.Millisecond-1), "Replicas timeout 999.999µs is less than 1ms"},
		{guard.Replicas(1, time.Millisecond), "Replicas is for New"},
		{guard.HandoverWindow(-1), "HandoverWindow"},
		{guard.HandoverWindow(5), "HandoverWindow 5ns is less than 1ms"},
		{guard.HandoverWindow(time.Minute + 1), "HandoverWindow 1m0.000000001s is outside 0 to 1m0s"},
		{guard.HandoverWindow(time.Minute), ""},
		{guard.Limit(3), "Limit is for a call or a rule, not for a Guard"},
		{guard.Shared(), "Shared is for a call or a rule, not for a Guard"},
		{guard.Instance(strings.Repeat("n", 129)), "Instance has 129 bytes, the most is 128"},
		{guard.Instance(strings.Repeat("ü", 65)), "Instance has 130 bytes, the most is 128"},
		{guard.Instance("web\xff"), "Instance is not UTF-8"},
		{guard.Instance(""), ""},
		{guard.Instance("Pod Nr. 7, München"), ""},
		{guard.Instance(strings.Repeat("n", 128)), ""},
		{nil, ""},
	} {
		g, err := guard.NewWithStore(guardtest.NewStore(), row.opt)
		if row.want == "" {
			require.NoError(t, err)
			require.NoError(t, g.Close())
			continue
		}
		assert.Equal(t, strings.Fields(row.want)[0], as[*guard.OptionError](t, err).Option)
		require.ErrorContains(t, err, row.want)
	}
}

// New looks at its options as NewWithStore does, and at those of one Redis.
func TestOptions_OfNew(t *testing.T) {
	t.Parallel()
	single := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer single.Close()
	defer cluster.Close()
	made := func(client redis.UniversalClient, opts ...guard.Option) func() (*guard.Guard, error) {
		return func() (*guard.Guard, error) { return guard.New(client, opts...) }
	}
	takenUnless(t, "Prefix ", made(single, guard.Prefix("")))
	takenUnless(t, "Replicas is for one Redis with replicas", made(cluster, guard.Replicas(1, time.Second)))
	takenUnless(t, "Replicas timeout 1.001s is more than 1s, half of StoreTimeout", made(single, guard.Replicas(1, 1001*time.Millisecond)))
	takenUnless(t, "", made(single, guard.Replicas(1, time.Second)))
	takenUnless(t, "", made(cluster))
}

// Stores count milliseconds: a Guard believes of a ttl what the store does.
func TestOptions_ATTLIsCutToWholeMilliseconds(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		require.NoError(t, g.lock(guard.TTL(100*time.Millisecond+900*time.Microsecond)))
		claim, _ := g.s.last("k")
		assert.Equal(t, 100*time.Millisecond, claim.TTL)
	})
}

func TestOptions_PrecedenceOfWaits(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		defer g.free(g.take())
		for _, row := range []struct {
			want string
			of   []guard.Option
			call []guard.LockOption
		}{
			{"deadline_exceeded", nil, nil},
			{"lock_busy", nil, []guard.LockOption{guardhook.DefaultWait(0).(guard.LockOption)}},
			{"lock_wait_timeout", []guard.Option{guard.Wait(time.Millisecond)}, []guard.LockOption{guardhook.DefaultWait(0).(guard.LockOption)}},
			{"lock_busy", []guard.Option{guard.Wait(time.Millisecond)}, []guard.LockOption{guard.NoWait(), guardhook.DefaultWait(time.Hour).(guard.LockOption)}},
			{"lock_busy", []guard.Option{guard.NoWait()}, []guard.LockOption{guardhook.DefaultWait(time.Hour).(guard.LockOption)}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := g.another(row.of...).Acquire(ctx, k, row.call...)
			assert.Equal(t, row.want, as[*guard.BusyError](t, err).ErrorType())
			cancel()
		}
	})
}

// A value that New did not make, or that is missing, is an error that says so: never a panic, and never work without a lock.
func TestZero_AndNil(t *testing.T) {
	never := never(t)
	var noGuard *guard.Guard
	var zeroGuard guard.Guard
	var noContext context.Context
	g, ctx := guardtest.NewMemoryGuard(t, nil, guard.NoWait(), nil), t.Context()
	unmade := guard.WithGuard(ctx, &zeroGuard)
	acquire := func(g *guard.Guard, ctx context.Context, key guard.KeyFunc) error {
		l, err := g.Acquire(ctx, key)
		assert.Nil(t, l)
		return err
	}
	do := func(g *guard.Guard, ctx context.Context, fn func(context.Context) (int, error)) error {
		n, err := guard.Do(ctx, g, k, fn)
		assert.Zero(t, n)
		return err
	}
	doNever := func(ctx context.Context) (int, error) { return 1, never(ctx) }
	made := func(g *guard.Guard, err error) error {
		assert.Nil(t, g)
		return err
	}
	_, noClients := quorum.New(nil)
	for name, test := range map[string]struct {
		err, want error
		names     string
	}{
		"nil Guard, WithLock":       {noGuard.WithLock(ctx, k, never), guard.ErrNoGuard, "no Guard"},
		"nil Guard, Acquire":        {acquire(noGuard, ctx, k), guard.ErrNoGuard, "no Guard"},
		"nil Guard, Do":             {do(nil, ctx, doNever), guard.ErrNoGuard, "no Guard"},
		"nil Guard, Lead":           {noGuard.Lead(ctx, k, never), guard.ErrNoGuard, ""},
		"nil Guard, WithLocks":      {noGuard.WithLocks(ctx, keysOf("a"), never), guard.ErrNoGuard, ""},
		"nil Guard, Ping":           {noGuard.Ping(ctx), guard.ErrNoGuard, ""},
		"no Guard, WithLock":        {guard.WithLock(ctx, k, never), guard.ErrNoGuard, ""},
		"zero Guard, WithLock":      {zeroGuard.WithLock(ctx, k, never, guard.FailOpen(), nil), guard.ErrNoGuard, "New"},
		"zero Guard, Acquire":       {acquire(&zeroGuard, ctx, k), guard.ErrNoGuard, "New"},
		"zero Guard, Do":            {do(&zeroGuard, ctx, doNever), guard.ErrNoGuard, "New"},
		"zero Guard, Lead":          {zeroGuard.Lead(ctx, k, never), guard.ErrNoGuard, ""},
		"zero Guard in the context": {guard.WithLock(unmade, k, never), guard.ErrNoGuard, "New"},
		"zero Guard, Close":         {zeroGuard.Close(), nil, ""},
		"zero Guard, Shutdown":      {zeroGuard.Shutdown(ctx), nil, ""},
		"nil Guard, Close":          {noGuard.Close(), nil, ""},
		"nil Guard, Shutdown":       {noGuard.Shutdown(noContext), nil, ""},
		"nil context, WithLock":     {g.WithLock(noContext, k, never), guard.ErrOption, "ctx is nil"},
		"nil context, Acquire":      {acquire(g, noContext, k), guard.ErrOption, "ctx is nil"},
		"nil context, Do":           {do(g, noContext, doNever), guard.ErrOption, "ctx is nil"},
		"nil context, Lead":         {g.Lead(noContext, k, never), guard.ErrOption, "ctx is nil"},
		"nil context and no Guard":  {guard.WithLock(noContext, k, never), guard.ErrNoGuard, "no Guard"},
		"nil key":                   {acquire(g, ctx, nil), guard.ErrKey, "no key function"},
		"nil key, Lead":             {g.Lead(ctx, nil, never), guard.ErrKey, ""},
		"nil work":                  {g.WithLock(ctx, k, nil), guard.ErrOption, "fn is nil"},
		"nil work, Do":              {do(g, ctx, nil), guard.ErrOption, "fn is nil"},
		"nil work, Lead":            {g.Lead(ctx, k, nil), guard.ErrOption, "fn is nil"},
		"nil work, WithLocks":       {g.WithLocks(ctx, keysOf("a"), nil), guard.ErrOption, "fn is nil"},
		"nil Store":                 {made(guard.NewWithStore(nil)), guard.ErrOption, "store is nil"},
		"nil Store of a type":       {made(guard.NewWithStore((*guardtest.Store)(nil))), guard.ErrOption, "store is nil"},
		"nil client":                {made(guard.New(nil)), guard.ErrOption, "client is nil"},
		"nil client of a type":      {made(guard.New((*redis.Client)(nil))), guard.ErrOption, "client is nil"},
		"nil clients":               {noClients, guard.ErrOption, "clients"},
		"nil options":               {guardhook.CheckOptions([]guard.LockOption{nil, nil}), nil, ""},
	} {
		require.ErrorIs(t, test.err, test.want, name)
		if test.want != nil {
			require.ErrorContains(t, test.err, test.names, name)
		}
	}
	_, found := guard.FromContext(noContext)
	assert.False(t, found)
	_, found = guard.Held(noContext, guard.Key("k"))
	assert.False(t, found)
	_, found = guard.Fence(noContext)
	assert.False(t, found)
	assert.Empty(t, zeroGuard.Holds())
	assert.Equal(t, "refused", (&guardstore.RefusedError{}).Error())
	require.NoError(t, g.WithLock(guard.WithGuard(ctx, nil), k, nothing, nil, guard.TTL(100*time.Millisecond), nil))

	l, err := g.Acquire(ctx, k)
	require.NoError(t, err)
	require.NoError(t, l.Check(noContext))
	require.NoError(t, l.Release(noContext))
	require.ErrorIs(t, l.Err(), guard.ErrReleased)
	require.NoError(t, g.Shutdown(noContext))
	require.ErrorIs(t, g.WithLock(ctx, k, never), guard.ErrClosed)
}

func TestKey_KeyfEscapesSeparators(t *testing.T) {
	key, err := guard.Keyf("t:%s:o:%s:%d", "a:b", "c%d", 42)(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "t:a%3Ab:o:c%25d:42", key)
	assert.Equal(t, "a%3Ab:c%25:", guard.JoinKey("a:b", "c%", ""))
	for name, key := range map[string]guard.KeyFunc{
		"is empty":                guard.Keyf("order:%s", ""),
		"does not fit the format": guard.Keyf("order:%s"),
	} {
		_, err := key(t.Context())
		assert.ErrorContains(t, as[*guard.KeyError](t, err), name)
	}
}

func TestKey_InvalidKeysRunNothing(t *testing.T) {
	g := guardtest.NewMemoryGuard(t)
	long := strings.Repeat("k", guard.MaxKeyLength+1)
	for _, row := range []struct {
		key  guard.KeyFunc
		is   error
		of   string
		text string
	}{
		{nil, guard.ErrKey, "", "no key function"},
		{guard.Key(""), guard.ErrKey, "", "empty"},
		{guard.Key(long), guard.ErrKey, long, fmt.Sprintf("%d bytes, the longest is %d", len(long), guard.MaxKeyLength)},
		{guard.Key("a\xffb"), guard.ErrKey, "a\xffb", "not UTF-8"},
		{func(context.Context) (string, error) { return "k", errBoom }, errBoom, "k", "key function failed: boom"},
		{func(context.Context) (string, error) { panic(errBoom) }, errBoom, "", "key function panicked: boom"},
		{func(context.Context) (string, error) { panic("boom") }, guard.ErrKey, "", "key function panicked: boom"},
	} {
		err := g.WithLock(t.Context(), row.key, never(t))
		require.ErrorIs(t, err, guard.ErrKey)
		require.ErrorIs(t, err, row.is)
		require.EqualError(t, err, "guard: invalid lock key: "+row.text, "an error text never names the key")
		assert.Equal(t, row.of, as[*guard.KeyError](t, err).Key)
	}
}

func TestKey_LongestAndStrangestKeysLock(t *testing.T) {
	g := guardtest.NewRedisGuard(t)
	for _, key := range []string{strings.Repeat("k", guard.MaxKeyLength), "{", "}", "{}", "}{", ":", "\x00", "a\nb", "订单:42", `\`} {
		require.NoError(t, g.WithLock(t.Context(), guard.Key(key), func(ctx context.Context) error {
			l, ok := guard.Held(ctx, guard.Key(key))
			require.True(t, ok)
			assert.Equal(t, key, l.Key())
			return nil
		}))
	}
}

// The keys were computed apart from this code: processes of all versions must agree on them.
func TestStripe_StripesAreTheSameEverywhere(t *testing.T) {
	for want, row := range map[string]struct {
		n   int
		key string
	}{"stripe:16:2": {16, "account:2"}, "stripe:1:0": {1, "x"}, "stripe:65536:47815": {65536, "order:42"}} {
		key, err := guard.Stripe(row.n, guard.Key(row.key))(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, key)
	}
	bubble(t, func(t *testing.T, g *env) {
		same := []guard.KeyFunc{guard.Stripe(16, guard.Key("account:1")), guard.Stripe(16, guard.Key("account:2"))}
		require.NoError(t, g.WithLocks(t.Context(), same, func(context.Context) error {
			assert.Equal(t, 1, g.s.Depth("stripe:16:2"))
			return nil
		}))
		assert.Len(t, g.r.Observations("HoldStart"), 1, "two IDs of one stripe are one lock")
	})
}

func TestStripe_OutOfBounds(t *testing.T) {
	failing := func(context.Context) (string, error) { return "", errBoom }
	for _, row := range []struct {
		n     int
		key   guard.KeyFunc
		names string
	}{
		{0, k, "0 stripes, which is outside 1 to 65536"},
		{-1, k, "-1 stripes, which is outside 1 to 65536"},
		{65537, k, "65537 stripes, which is outside 1 to 65536"},
		{16, nil, "no key function"},
		{16, guard.Key(""), "empty"},
		{16, guard.Key(strings.Repeat("k", 513)), "513 bytes"},
		{16, failing, "boom"},
	} {
		_, err := guard.Stripe(row.n, row.key)(t.Context())
		require.ErrorIs(t, err, guard.ErrKey)
		require.ErrorContains(t, err, row.names)
		require.EqualError(t, guardtest.NewMemoryGuard(t).WithLock(t.Context(), guard.Stripe(row.n, row.key), nothing), err.Error())
	}
}

// A Guard that is used on the other side of a bubble's wall would hang.
func TestBubble_AGuardStaysOnItsSideOfTheWall(t *testing.T) {
	outside := guardtest.NewMemoryGuard(t)
	var inside *guard.Guard
	refuses := func(t *testing.T, g *guard.Guard, text string) {
		t.Helper()
		_, err := g.Acquire(t.Context(), k)
		for _, err := range []error{
			err, g.WithLock(t.Context(), k, never(t), guard.FailOpen()), g.Ping(t.Context()), g.Shutdown(t.Context()), g.Close(),
		} {
			require.ErrorIs(t, err, guard.ErrOption)
			assert.ErrorContains(t, err, text)
		}
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	synctest.Test(t, func(t *testing.T) {
		inside = guardtest.NewMemoryGuard(t)
		require.NoError(t, inside.WithLock(t.Context(), k, nothing))
		refuses(t, outside, "make it inside")

		_, err := guard.New(client)
		require.ErrorContains(t, err, "guardtest.NewMemoryGuard", "a real client does not work in a bubble")
		_, err = quorum.New([]redis.UniversalClient{client, client, client})
		require.ErrorContains(t, err, "guardtest.NewMemoryGuard")
	})
	refuses(t, inside, "close it inside")
	require.NoError(t, outside.WithLock(t.Context(), k, func(ctx context.Context) error { return ctx.Err() }))
}

// wrapped is how instrumented clients are often made: it has all methods, and New cannot know what it is.
type wrapped struct{ redis.UniversalClient }

// A Guard has to know what its client does when a server hangs. Two kinds are known.
func TestClients_OnlyKnownClientsAreTaken(t *testing.T) {
	t.Parallel()
	const nowhere = "127.0.0.1:1"
	single := redis.NewClient(&redis.Options{Addr: nowhere})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nowhere}})
	failover := redis.NewFailoverClient(&redis.FailoverOptions{SentinelAddrs: []string{nowhere}})
	failoverCluster := redis.NewFailoverClusterClient(&redis.FailoverOptions{SentinelAddrs: []string{nowhere}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": nowhere, "b": "127.0.0.1:2"}})
	for _, c := range []redis.UniversalClient{single, cluster, failover, failoverCluster, ring} {
		t.Cleanup(func() { _ = c.Close() })
	}
	for name, test := range map[string]struct {
		client      redis.UniversalClient
		one, quorum string // what New and quorum.New say
	}{
		"standalone":             {single, "", ""},
		"timeout":                {single.WithTimeout(time.Second), "", ""},
		"sentinel":               {failover, "", ""},
		"cluster":                {cluster, "", "clients has a *redis.ClusterClient at index 1: "},
		"sentinel, as a cluster": {failoverCluster, "", "clients has a *redis.ClusterClient at index 1: "},
		"ring": {
			ring, "client is a *redis.Ring: it takes a shard that hangs out of use, and its locks would have two holders",
			"clients has a *redis.Ring at index 1: ",
		},
		"wrapped": {
			wrapped{single},
			"client is a guard_test.wrapped; give New the *redis.Client or *redis.ClusterClient itself: a wrapper hides what New has to know, and its timeouts cannot be bound",
			"clients has a guard_test.wrapped at index 1; give quorum.New the *redis.Client itself: a wrapper hides ",
		},
		"wrapped, no name": {
			struct{ redis.UniversalClient }{single},
			"client is a struct { redis.UniversalClient }; give New ",
			"clients has a struct { redis.UniversalClient } at index 1; give quorum.New ",
		},
		"pointer to wrapped": {&wrapped{single}, "client is a *guard_test.wrapped; ", "clients has a *guard_test.wrapped at index 1; "},
		"nil ring":           {(*redis.Ring)(nil), "client is nil", "clients has a *redis.Ring at index 1: "},
		"nil cluster":        {(*redis.ClusterClient)(nil), "client is nil", "clients has a *redis.ClusterClient at index 1: "},
		"nil wrapper":        {(*wrapped)(nil), "client is nil", "clients has a *guard_test.wrapped at index 1; "},
		"nil client":         {(*redis.Client)(nil), "client is nil", "clients has no client at index 1"},
		"zero":               {&redis.Client{}, "client is a *redis.Client that go-redis did not make", "clients has a *redis.Client at index 1 that go-redis did not make"},
		"zero cluster":       {&redis.ClusterClient{}, "client is a *redis.ClusterClient that go-redis did not make", "clients has a *redis.ClusterClient at index 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			takenUnless(t, test.one, func() (*guard.Guard, error) { return guard.New(test.client) })
			takenUnless(t, test.quorum, func() (*quorum.Store, error) {
				return quorum.New([]redis.UniversalClient{single, test.client, single})
			})
		})
	}
}

// takenUnless makes something that is to be refused with an OptionError; "" is not.
func takenUnless[T interface{ Close() error }](t *testing.T, refusal string, made func() (T, error)) {
	t.Helper()
	got, err := made()
	if refusal == "" {
		require.NoError(t, err)
		require.NoError(t, got.Close())
		return
	}
	assert.Contains(t, as[*guard.OptionError](t, err).Error(), "guard: "+refusal)
	assert.Zero(t, got)
}

// refusing is a Limiter, and a Hook, that lets nothing pass.
type refusing struct{}

func (refusing) Allow() error       { return errBoom }
func (refusing) ReportResult(error) {}

func (refusing) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errBoom }
}

func (refusing) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return errBoom }
}

func (refusing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errBoom }
}

// endless has a client wait for ever for whatever it sends, and repeat it.
func endless(o *redis.Options) {
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.DialTimeout = -1, -1, time.Hour, time.Hour
	o.MaxRetries, o.DialerRetries = 1000, 1000
}

// What a client does for its own commands is not done for those of a Guard. A lease that outlives its Guard
// is given back on a connection that is bounded as all others are.
func TestClients_OptionsOfTheClientThatAreNotTheGuards(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	proxy := redistest.NewProxy(t, s.Addr())
	client := proxy.Client(t, endless, func(o *redis.Options) {
		o.Limiter = refusing{}
		o.MaxActiveConns, o.PoolSize = 1, 1
	})
	client.AddHook(refusing{})
	r := testenv.NewOn(t, s, proxy, client, guard.StoreTimeout(time.Second), guard.TTL(5*time.Second))
	inTime, err := r.Acquire(t.Context(), guard.Key(t.Name()+" in time"))
	require.NoError(t, err)
	silent, err := r.Acquire(t.Context(), guard.Key(t.Name()+" silent"))
	require.NoError(t, err)
	proxy.Freeze()
	failed := testenv.InBackground(func() error { return r.WithLock(t.Context(), guard.Key(t.Name()), nothing) })
	require.ErrorIs(t, failed(t), guard.ErrStore)
	closed := testenv.InBackground(r.Close)
	require.NoError(t, closed(t))
	proxy.Thaw()
	require.ErrorIs(t, inTime.Release(t.Context()), guard.ErrClosed)
	r.Gone(t, inTime.Key())
	proxy.Freeze()
	late := testenv.InBackground(func() error { return silent.Release(t.Context()) })
	require.ErrorIs(t, late(t), guard.ErrClosed)
	proxy.Thaw()
	require.NoError(t, r.Direct.Del(context.WithoutCancel(t.Context()), testenv.LockOf(silent.Key())).Err())
}

// announced is a store that keeps what instances say of themselves.
type announced struct {
	*store
	said chan [2]string
}

func (a announced) Announce(ctx context.Context, instance, name string, _ time.Duration) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.said <- [2]string{instance, name}
	return nil
}

// A Guard says what its process is called when it takes its first lock.
func TestInstance_IsAnnouncedWithTheFirstLock(t *testing.T) {
	for _, opt := range []guard.Option{nil, guard.Instance("web-1")} {
		bubble(t, func(t *testing.T, g *env) {
			a := announced{g.s, make(chan [2]string, 10)}
			made, err := guard.NewWithStore(a, opt)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			assert.Empty(t, a.said)
			require.NoError(t, made.WithLock(t.Context(), k, func(ctx context.Context) error {
				l, _ := guard.FromContext(ctx)
				synctest.Wait()
				require.Len(t, a.said, 1)
				said := <-a.said
				assert.True(t, strings.HasPrefix(testenv.Owner(l), said[0]+"-"), "%s is of %s", testenv.Owner(l), said[0])
				assert.Equal(t, opt != nil, said[1] == "web-1")
				assert.NotEmpty(t, said[1])
				return nil
			}))
			require.NoError(t, made.Close())
		})
	}
}
