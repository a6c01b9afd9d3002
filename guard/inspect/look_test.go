package inspect_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/guardhook"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestLook_GetShowsHolderAndQueue(t *testing.T) {
	r := newEnv(t)
	info := r.get("k")
	info.Now = time.Time{}
	assert.Equal(t, inspect.Info{Key: "k"}, info, "free")

	before := time.Now()
	h := r.hold(r.guard(guard.Instance("web-1"), guard.Metadata("order 42")), "k", guard.TTL(time.Minute))
	second := r.start(r.guard(guard.Instance("")), "k")
	r.await("k", 1, 1)
	third := r.start(r.guard(), "k")
	host, _ := os.Hostname()
	self := host[:min(len(host), 64)] + ":" + strconv.Itoa(os.Getpid())
	require.Eventually(t, func() bool {
		info = r.get("k")
		return len(info.Waiting) == 2 && info.Holders[0].Instance == "web-1" && info.Waiting[1].Instance == self
	}, patience, time.Millisecond)

	require.Len(t, info.Holders, 1)
	holder := info.Holders[0]
	assert.WithinDuration(t, before, holder.Since, patience)
	assert.Greater(t, holder.Left, 30*time.Second)
	assert.LessOrEqual(t, holder.Left, time.Minute)
	holder.Left = 0
	assert.Equal(t, inspect.Holder{Instance: "web-1", Metadata: "order 42", Fence: h.Fence(), Depth: 1, Limit: 1, Since: holder.Since}, holder)
	assert.Equal(t, h.Fence(), info.LastFence)
	assert.WithinDuration(t, time.Now(), info.Now, patience)
	assert.Equal(t, 2, info.Queued)
	assert.Len(t, info.Waiting[0].Instance, 8, "it has no name")
	for n, w := range info.Waiting {
		assert.False(t, w.Since.Before(holder.Since), n)
		assert.False(t, w.Asked.Before(holder.Since), n)
		assert.False(t, w.Since.After(info.Now), n)
		assert.Equal(t, n == 0, w.Front)
		assert.Equal(t, 1, w.Limit)
	}
	assert.True(t, info.Waiting[0].Since.Before(info.Waiting[1].Since))
	instance, _, _ := strings.Cut(guardhook.Owner(h.Lease), "-")
	assert.NotContains(t, fmt.Sprintf("%+v", info), instance, "owners are secrets")
	h.finish(nil)
	(<-second).finish(nil)
	(<-third).finish(nil)
	assert.Zero(t, r.get("k").LastFence)
}

func TestLook_OnlyTheFirstHundredInAQueueAreShown(t *testing.T) {
	r := newEnv(t)
	var queue []redis.Z
	for n := range 150 {
		queue = append(queue, redis.Z{Score: float64(1e15 + n), Member: fmt.Sprintf("%032x-1", n)})
	}
	require.NoError(t, r.rdb.ZAdd(t.Context(), "redlatch:{k}:queue", queue...).Err())
	info := r.get("k")
	assert.Equal(t, 150, info.Queued)
	require.Len(t, info.Waiting, 100)
	assert.Equal(t, []bool{true, false}, []bool{info.Waiting[0].Front, info.Waiting[1].Front})
}

func TestLook_LookingWritesNothing(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(guard.Instance("")), "k")
	newWork(r, "recorded").done("result")
	writes := func() string {
		info, err := r.rdb.InfoMap(t.Context(), "persistence").Result()
		require.NoError(t, err)
		return info["Persistence"]["rdb_changes_since_last_save"]
	}
	before := writes()
	for _, key := range []string{"k", "free", "recorded"} {
		r.get(key)
	}
	r.all("*")
	r.revokes("k", 1, false)
	r.breaks("free", 1, false)
	r.forgets("free", false)
	assert.Equal(t, before, writes())
	h.finish(nil)
}

func TestLook_AllShowsWhatMatches(t *testing.T) {
	r := newEnv(t)
	const prefix = "a*[b]?"
	for _, foreign := range []string{prefix + ":{x}:queue", prefix + ":{}", "axbb:{x}", prefix + ":x", prefix + `:{x\}`, prefix + `:{\a}`} {
		require.NoError(t, r.rdb.HSet(t.Context(), foreign, "12345678-1", "1 1 0 - ").Err())
	}
	require.NoError(t, r.rdb.Set(t.Context(), prefix+":{string}", "x", 0).Err())
	keys := []string{"order:1", "order:2", "orders", "}", "{", "{}x", `\`, `a}b\c`, "订单:42", "*", "order:[1]"}
	g := r.guard(guard.Prefix(prefix))
	for _, key := range keys {
		r.hold(g, key)
	}
	r.hold(r.guard(), "order:3")
	r = r.with(inspect.New(r.rdb, inspect.Prefix(prefix)))
	for match, want := range map[string][]string{
		"": keys, "*": keys, "order:*": {"order:1", "order:2", "order:[1]"}, "order:?": {"order:1", "order:2"},
		"order:[2-9]": {"order:2"}, "order:[^2]": {"order:1"}, `order:\[*`: {"order:[1]"}, "}": {"}"}, `\\`: {`\`},
		"订?:*": {"订单:42"}, "none": nil, `\*`: {"*"}, "a*c": {`a}b\c`}, "?": {"}", "{", `\`, "*"}, "*1*": {"order:1", "order:[1]"},
	} {
		assert.ElementsMatch(t, want, r.all(match), match)
	}
	n := 0
	for _, err := range r.All(t.Context(), "") {
		require.NoError(t, err)
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n)
}

func TestLook_WhatIsNoLock(t *testing.T) {
	r := newEnv(t)
	const owner = "0123456789abcdef-1"
	for key, fields := range map[string][]any{
		"by hand": {"name", "secret"}, "no owner": {"@fence", "7"}, "no number": {owner, "1 seven 0 - "},
		"no depth": {owner, "deep 7 0 - "}, "two owners": {owner, "1 7 0 - ", "0123456789abcdef-2", "1 7 0 - "},
	} {
		require.NoError(t, r.rdb.HSet(t.Context(), "redlatch:{"+key+"}", fields...).Err())
	}
	require.NoError(t, r.rdb.Set(t.Context(), "redlatch:{string}", "secret", 0).Err())
	require.NoError(t, r.rdb.RPush(t.Context(), "redlatch:{queue}:queue", "secret").Err())
	require.NoError(t, r.rdb.RPush(t.Context(), "redlatch:{ended}:ended", "secret").Err())
	keys := []string{"string", "by hand", "no owner", "no number", "no depth", "two owners", "queue", "ended"}
	for _, key := range keys {
		_, err := r.Get(t.Context(), key)
		var format *inspect.FormatError
		require.ErrorAs(t, err, &format, key)
		require.ErrorIs(t, err, inspect.ErrFormat)
		assert.Equal(t, key, format.Key)
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), key+" ")
	}
	broken := 0
	for info, err := range r.All(t.Context(), "") {
		require.ErrorIs(t, err, inspect.ErrFormat)
		assert.NotEmpty(t, info.Key)
		broken++
	}
	assert.Equal(t, 5, broken, "it goes on")

	before := r.dump()
	for _, key := range keys {
		for _, fence := range []uint64{0, 1, 8, 1 << 63} {
			there, err := r.Revoke(t.Context(), key, fence)
			assert.False(t, there)
			if key != "two owners" && key != "queue" && key != "ended" && key != "no owner" {
				require.ErrorIs(t, err, inspect.ErrFormat, key)
			}
		}
		if _, err := r.Break(t.Context(), key, 3); err != nil {
			require.ErrorIs(t, err, inspect.ErrFormat)
		}
	}
	assert.Equal(t, before, r.dump())
}

func (r *env) dump() map[string]string {
	all := map[string]string{}
	for _, key := range r.rdb.Keys(r.Context(), "*").Val() {
		all[key] = fmt.Sprint(r.rdb.Dump(r.Context(), key).Val())
	}
	return all
}

// every calls each method for a key.
func every(ctx context.Context, i *inspect.Inspector, key string) (errs []error) {
	_, err := i.Get(ctx, key)
	_, revoke := i.Revoke(ctx, key, 1)
	_, broken := i.Break(ctx, key, 1)
	_, forget := i.Forget(ctx, key)
	return []error{err, revoke, broken, forget}
}

// listed are the errors of All.
func listed(ctx context.Context, i *inspect.Inspector, match string) (errs []error) {
	for _, err := range i.All(ctx, match) {
		errs = append(errs, err)
	}
	return errs
}

func TestLook_BadInput(t *testing.T) {
	r := newEnv(t)
	good := inspect.New(r.rdb, nil)
	for _, key := range []string{"", "\xff", strings.Repeat("k", guard.MaxKeyLength+1)} {
		for _, err := range every(t.Context(), good, key) {
			require.ErrorIs(t, err, guard.ErrKey)
		}
	}
	for name, i := range map[string]*inspect.Inspector{
		"nil": nil, "zero": {}, "nil client": inspect.New(nil), "nil pointer": inspect.New((*redis.Client)(nil)),
		"no prefix": inspect.New(r.rdb, inspect.Prefix("")), "braces": inspect.New(r.rdb, inspect.Prefix("a{b")),
		"no UTF-8": inspect.New(r.rdb, inspect.Prefix("\xff")),
	} {
		all := append(every(t.Context(), i, "k"), listed(t.Context(), i, "")...)
		require.Len(t, all, 5, name)
		for _, err := range all {
			require.ErrorIs(t, err, guard.ErrOption, name)
		}
	}
	for _, err := range every(nil, good, "k") { //nolint:staticcheck // it is an error
		require.ErrorIs(t, err, guard.ErrOption)
	}
}

// A glob is compared with each key: a long one keeps the process busy for minutes.
func TestLook_MatchIsBounded(t *testing.T) {
	r := newEnv(t)
	assert.Empty(t, r.all(strings.Repeat("*", 512)))
	failures := listed(t.Context(), r.Inspector, strings.Repeat("*", 513))
	require.Len(t, failures, 1)
	require.ErrorIs(t, failures[0], guard.ErrOption)
	assert.ErrorContains(t, failures[0], "match")
	assert.ErrorContains(t, failures[0], "513 bytes, the longest is 512")
}

func TestLook_AnUnreachableRedis(t *testing.T) {
	t.Parallel()
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer nobody.Close()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	silent := proxy.Client(t)
	proxy.Freeze()
	for name, rdb := range map[string]*redis.Client{"nobody": nobody, "silent": silent} {
		i := inspect.New(rdb)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		all := append(every(ctx, i, "k"), listed(ctx, i, "")...)
		require.Len(t, all, 5)
		for _, err := range all {
			require.ErrorIs(t, err, guard.ErrStore, name)
		}
		cancel()
	}
	proxy.Thaw()
}

// Pages and logs name the Redis, and nothing that lets anybody in.
func TestLook_AnInspectorSaysWhereItLooks(t *testing.T) {
	t.Parallel()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"a:1", "b:2"}, Password: "s3cret"})
	sentinel := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{"127.0.0.1:1"}, Password: "s3cret", DB: 2})
	single := redis.NewClient(&redis.Options{Addr: "cache.example:6379", Username: "us3r", Password: "s3cret", DB: 3})
	defer func() { _, _, _ = cluster.Close(), sentinel.Close(), single.Close() }()
	assert.Equal(t, "Redis at cache.example:6379, database 3, prefix shop", inspect.New(single, inspect.Prefix("shop")).String())
	assert.Equal(t, "Redis Cluster at a:1, b:2, prefix redlatch", inspect.New(cluster).String())
	assert.Equal(t, "Redis found by Sentinel, database 2, prefix redlatch", inspect.New(sentinel).String())
	for _, i := range []*inspect.Inspector{nil, inspect.New(nil), {}} {
		assert.Equal(t, "no Redis", i.String())
	}
}
