package guard_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync/atomic"
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
			{"", some{guard.TTL(100 * time.Millisecond), guard.TTL(24 * time.Hour), guard.Wait(0), guard.Wait(guard.Forever), nil}},
			{"", some{guard.MaxHold(0), guard.Metadata(strings.Repeat("m", 256)), guard.Limit(1), guard.Limit(10_000)}},
			{"", some{guard.MinHold(24 * time.Hour), guard.MaxHold(0)}},
			{"", some{guard.MaxHold(time.Second), guard.MinHold(2 * time.Second), guard.MaxHold(time.Minute)}},
			{"", some{guard.MinHold(time.Second), guard.MaxHold(time.Second)}},
		} {
			err := guardhook.CheckOptions(row.opts)
			if row.want == "" {
				require.NoError(t, err)
				continue
			}
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

func TestOptions_OfAGuard(t *testing.T) {
	for _, row := range []struct {
		opt  guard.Option
		want string
	}{
		{guard.Prefix(""), "Prefix"},
		{guard.Prefix("p"), "Prefix is for New"},
		{guard.Replicas(1, time.Second), "Replicas is for New"},
		{guard.OnClient(func(redis.UniversalClient) {}), "OnClient is for New"},
		{guard.OnClient(nil), "OnClient was given a nil function"},
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
		{guard.HandoverWindow(0), ""},
		{guard.HandoverWindow(time.Minute), ""},
		{guard.Limit(3), "Limit is for a call or a rule, not for a Guard"},
		{guard.Shared(), "Shared is for a call or a rule, not for a Guard"},
		{guard.Instance(strings.Repeat("n", 129)), "Instance has 129 bytes, the most is 128"},
		{guard.Instance("web\xff"), "Instance is not UTF-8"},
		{guard.Instance(""), ""},
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

// Stores count milliseconds: a Guard believes of a duration what the store does.
func TestOptions_DurationsAreCutToWholeMilliseconds(t *testing.T) {
	bubble(t, func(t *testing.T, g *env) {
		const rest = 900 * time.Microsecond
		_, _, err := guard.Once(t.Context(), g.Guard, k, 3*time.Millisecond+rest, gives(1), guard.TTL(100*time.Millisecond+rest))
		require.NoError(t, err)
		claim, _ := g.s.Last("k")
		assert.Equal(t, 100*time.Millisecond, claim.TTL)
		assert.Equal(t, 3*time.Millisecond, claim.Once.Keep)
		require.NoError(t, g.WithLock(t.Context(), guard.Key("held"), nothing, guard.MinHold(time.Millisecond+rest)))
		assert.Equal(t, time.Millisecond, g.s.Released("held").MinHold)
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
		"zero Guard in the context": {guard.WithLock(unmade, k, never), guard.ErrNoGuard, "New"},
		"zero Guard, Close":         {zeroGuard.Close(), nil, ""},
		"zero Guard, Shutdown":      {zeroGuard.Shutdown(ctx), nil, ""},
		"nil Guard, Close":          {noGuard.Close(), nil, ""},
		"nil Guard, Shutdown":       {noGuard.Shutdown(noContext), nil, ""},
		"nil context, WithLock":     {g.WithLock(noContext, k, never), guard.ErrOption, "ctx is nil"},
		"nil context, Do":           {do(g, noContext, doNever), guard.ErrOption, "ctx is nil"},
		"nil context and no Guard":  {guard.WithLock(noContext, k, never), guard.ErrNoGuard, "no Guard"},
		"nil key":                   {acquire(g, ctx, nil), guard.ErrKey, "no key function"},
		"nil work":                  {g.WithLock(ctx, k, nil), guard.ErrOption, "fn is nil"},
		"nil work, Do":              {do(g, ctx, nil), guard.ErrOption, "fn is nil"},
		"nil work, Lead":            {g.Lead(ctx, k, nil), guard.ErrOption, "fn is nil"},
		"nil work, WithLocks":       {g.WithLocks(ctx, keysOf("a"), nil), guard.ErrOption, "fn is nil"},
		"nil Store":                 {made(guard.NewWithStore(nil)), guard.ErrOption, "store is nil"},
		"nil Store of a type":       {made(guard.NewWithStore((*guardtest.Store)(nil))), guard.ErrOption, "store is nil"},
		"nil client":                {made(guard.New(nil)), guard.ErrOption, "client is nil"},
		"nil options":               {guardhook.CheckOptions([]guard.LockOption{nil, nil}), nil, ""},
	} {
		require.ErrorIs(t, test.err, test.want, name)
		if test.want != nil {
			require.ErrorContains(t, test.err, test.names, name)
		}
	}
	_, innermost := guard.FromContext(noContext)
	_, held := guard.Held(noContext, guard.Key("k"))
	_, fenced := guard.Fence(noContext)
	assert.False(t, innermost || held || fenced)
	assert.Empty(t, zeroGuard.Holds())
	assert.Empty(t, (*guard.Guard)(nil).Holds())
	_, held = guard.Held(t.Context(), func(context.Context) (string, error) { t.Error("no lease, no question"); return "", nil })
	assert.False(t, held)
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
		{guard.Stripe(0, k), guard.ErrKey, "", "0 stripes, which is outside 1 to 65536"},
		{guard.Stripe(65537, k), guard.ErrKey, "", "65537 stripes, which is outside 1 to 65536"},
		{guard.Stripe(16, nil), guard.ErrKey, "", "no key function"},
		{guard.Stripe(16, guard.Key("")), guard.ErrKey, "", "empty"},
	} {
		err := g.WithLock(t.Context(), row.key, never(t))
		require.ErrorIs(t, err, guard.ErrKey)
		require.ErrorIs(t, err, row.is)
		require.EqualError(t, err, "guard: invalid lock key: "+row.text, "an error text never names the key")
		assert.Equal(t, row.of, as[*guard.KeyError](t, err).Key)
	}
	for _, key := range []guard.KeyFunc{guard.Key(long[1:]), guard.Stripe(1, k), guard.Stripe(65536, k)} {
		require.NoError(t, g.WithLock(t.Context(), key, nothing))
	}
}

// A Guard that is used on the other side of a bubble's wall would hang.
func TestBubble_AGuardStaysOnItsSideOfTheWall(t *testing.T) {
	outside := guardtest.NewMemoryGuard(t)
	var inside *guard.Guard
	refuses := func(t *testing.T, g *guard.Guard, text string) {
		t.Helper()
		for _, err := range []error{
			g.WithLock(t.Context(), k, never(t), guard.FailOpen()), g.Ping(t.Context()), g.Shutdown(t.Context()), g.Close(),
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
	require.NoError(t, outside.WithLock(t.Context(), k, nothing))
}

// wrapped is how instrumented clients are often made: it has all methods, and New cannot know what it is.
type wrapped struct{ redis.UniversalClient }

// refusing is a Limiter that lets nothing pass.
type refusing struct{}

func (refusing) Allow() error       { return errBoom }
func (refusing) ReportResult(error) {}

// announced is a store that keeps what instances say of themselves, and answers none of it.
type announced struct {
	*testenv.Faulty
	said chan string
}

func (a announced) Announce(ctx context.Context, instance, name string, life time.Duration) error {
	deadline, _ := ctx.Deadline()
	a.said <- fmt.Sprint(instance, " ", name, " ", life, " ", time.Until(deadline))
	return untilDone(ctx)
}

// A Guard announces the name of its process from its first lock on, and does not wait for the answer. An empty name is not announced.
func TestInstance_IsAnnouncedFromTheFirstLockOn(t *testing.T) {
	for name, times := range map[string]int{"web-1": 4, "": 0} {
		bubble(t, func(t *testing.T, g *env) {
			a := announced{g.s, make(chan string, 10)}
			made, err := guard.NewWithStore(a, guard.Instance(name))
			require.NoError(t, err)
			time.Sleep(time.Minute)
			assert.Empty(t, a.said)
			l, err := made.Acquire(t.Context(), k)
			require.NoError(t, err)
			time.Sleep(59 * time.Second)
			require.NoError(t, l.Release(t.Context()))
			held := g.take()
			time.Sleep(time.Minute)
			require.ErrorIs(t, made.WithLock(t.Context(), k, nothing, guard.NoWait()), guard.ErrBusy) // who wants a lock is named, too
			g.free(held)
			require.NoError(t, made.Close())
			assert.Len(t, a.said, times)
			instance, _, _ := strings.Cut(testenv.Owner(l), "-")
			for range times {
				assert.Equal(t, instance+" web-1 1m0s 1s", <-a.said)
			}
		})
	}
}

// New looks at its options as NewWithStore does, and at those of one Redis. It has to know what its client does when a
// server hangs: two kinds are known.
func TestNew_OptionsAndClients(t *testing.T) {
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
		client redis.UniversalClient
		opt    guard.Option
		want   string // the OptionError, if any
	}{
		"standalone":             {single, nil, ""},
		"timeout":                {single.WithTimeout(time.Second), nil, ""},
		"sentinel":               {failover, nil, ""},
		"cluster":                {cluster, nil, ""},
		"sentinel, as a cluster": {failoverCluster, nil, ""},
		"ring":                   {ring, nil, "client is a *redis.Ring: it takes a shard that hangs out of use, and its locks would have two holders"},
		"wrapped":                {wrapped{single}, nil, "client is a guard_test.wrapped; give New the *redis.Client or *redis.ClusterClient itself: a wrapper hides"},
		"pointer to wrapped":     {&wrapped{single}, nil, "client is a *guard_test.wrapped; "},
		"nil wrapper":            {(*wrapped)(nil), nil, "client is nil"},
		"nil client":             {(*redis.Client)(nil), nil, "client is nil"},
		"zero":                   {&redis.Client{}, nil, "client is a *redis.Client that go-redis did not make"},
		"zero cluster":           {&redis.ClusterClient{}, nil, "client is a *redis.ClusterClient that go-redis did not make"},
		"prefix":                 {single, guard.Prefix(""), "Prefix "},
		"replicas":               {single, guard.Replicas(1, time.Second), ""},
		"patient replicas":       {single, guard.Replicas(1, 1001*time.Millisecond), "Replicas timeout 1.001s is more than 1s, half of StoreTimeout"},
		"replicas, a cluster":    {cluster, guard.Replicas(1, time.Second), "Replicas is for one Redis with replicas"},
	} {
		g, err := guard.New(test.client, test.opt)
		if test.want == "" {
			require.NoError(t, err, name)
			require.NoError(t, g.Close())
			continue
		}
		assert.Contains(t, as[*guard.OptionError](t, err).Error(), "guard: "+test.want, name)
		assert.Nil(t, g)
	}
}

// Work that locks its key by another Guard would wait for itself, also if both Guards have clients of their own.
func TestNew_GuardsOfOneRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	one, other := testenv.GuardOn(t, s.Client(t)), testenv.GuardOn(t, s.Client(t))
	key := guard.Key("Guards of one Redis")
	require.NoError(t, one.WithLock(t.Context(), key, func(ctx context.Context) error {
		require.ErrorIs(t, other.WithLock(ctx, key, never(t)), guard.ErrOption)
		return nil
	}))
}

// A client with TLS leads to a port without: the error says so.
func TestNew_TLSAtAPlainPort(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: &tls.Config{}})
	t.Cleanup(func() { _ = client.Close() })
	err := testenv.GuardOn(t, client).WithLock(t.Context(), k, nothing)
	require.ErrorIs(t, err, guard.ErrStore)
	require.ErrorContains(t, err, s.Addr()+" (TLS)")
}

// What a client does for its own commands, such as to wait for ever or to ask a Limiter, is not done for those of a Guard.
func TestNew_OptionsOfTheClientThatAreNotTheGuards(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	proxy := redistest.NewProxy(t, s.Addr())
	client := proxy.Client(t, func(o *redis.Options) {
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.DialTimeout = -1, -1, time.Hour, time.Hour
		o.MaxRetries, o.DialerRetries = 1000, 1000
		o.Limiter, o.MaxActiveConns, o.PoolSize = refusing{}, 1, 1
	})
	var seen hook
	client.AddHook(&seen)
	r := testenv.NewOn(t, s, proxy, client, guard.StoreTimeout(time.Second))
	require.NoError(t, r.WithLock(t.Context(), guard.Key(t.Name()), nothing))
	_ = client.Ping(t.Context())
	assert.EqualValues(t, 1, seen.commands.Load(), "the user's own")
	proxy.Freeze()
	failed := testenv.InBackground(func() error { return r.WithLock(t.Context(), guard.Key(t.Name()), nothing) })
	require.ErrorIs(t, failed(t), guard.ErrStore)
	proxy.Thaw()
}

// hook counts commands.
type hook struct{ commands atomic.Int32 }

func (h *hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h.commands.Add(1); return next(ctx, cmd) }
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { h.commands.Add(1); return next(ctx, cmds) }
}
