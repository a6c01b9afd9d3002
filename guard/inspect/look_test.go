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
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestLook_GetShowsHolderAndQueue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	i := inspect.New(s.Client(t))
	info, err := i.Get(t.Context(), "k")
	require.NoError(t, err, "free")
	assert.Empty(t, info.Holders)
	assert.Empty(t, info.Waiting)
	assert.Zero(t, info.LastFence)
	assert.Equal(t, "k", info.Key)

	a := guardOn(t, s.Client(t), guard.Instance("web-1"), guard.Metadata("order 42"))
	b := guardOn(t, s.Client(t), guard.Instance(""))
	c := guardOn(t, s.Client(t))
	before := time.Now()
	h := hold(t, a, "k", guard.TTL(time.Minute))
	in := enters(t, b, "k")
	awaitWaiting(t, i, "k", 1)
	last := enters(t, c, "k")
	awaitWaiting(t, i, "k", 2)
	host, _ := os.Hostname()
	require.Eventually(t, func() bool {
		info, err = i.Get(t.Context(), "k")
		return err == nil && info.Holders[0].Instance == "web-1" && info.Waiting[1].Instance == host[:min(len(host), 64)]+":"+strconv.Itoa(os.Getpid())
	}, patience, time.Millisecond)

	lease, _ := guard.FromContext(h.ctx)
	require.Len(t, info.Holders, 1)
	holder := info.Holders[0]
	assert.Equal(t, "order 42", holder.Metadata)
	assert.Equal(t, lease.Fence(), holder.Fence)
	assert.Equal(t, lease.Fence(), info.LastFence)
	assert.Equal(t, 1, holder.Depth)
	assert.Equal(t, 1, holder.Limit)
	assert.False(t, holder.Revoked)
	assert.WithinDuration(t, before, holder.Since, patience)
	assert.Greater(t, holder.Left, 30*time.Second)
	assert.LessOrEqual(t, holder.Left, time.Minute)
	assert.WithinDuration(t, time.Now(), info.Now, patience)
	assert.Equal(t, 2, info.Queued)
	require.Len(t, info.Waiting, 2)
	anonymous := info.Waiting[0].Instance
	assert.Len(t, anonymous, 8)
	for n, w := range info.Waiting {
		assert.False(t, w.Since.Before(holder.Since), n)
		assert.False(t, w.Asked.Before(holder.Since), n)
		assert.False(t, w.Since.After(info.Now), n)
		assert.True(t, w.Front)
		assert.Equal(t, 1, w.Limit)
	}
	assert.True(t, info.Waiting[0].Since.Before(info.Waiting[1].Since))
	text := fmt.Sprintf("%+v", info)
	assert.NotContains(t, text, lease.Owner(), "owners are secrets")
	instance, _, _ := strings.Cut(lease.Owner(), "-")
	assert.NotContains(t, text, instance)
	close(h.finish)
	require.NoError(t, <-h.result)
	<-in
	<-last
	require.Eventually(t, func() bool { // the last one was in, and is on its way out
		info, err = i.Get(t.Context(), "k")
		return err == nil && len(info.Holders) == 0
	}, patience, time.Millisecond)
	assert.Greater(t, info.LastFence, lease.Fence())
}

func TestLook_OnlyTheFirstHundredInAQueueAreShown(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for n := range 150 {
		id := fmt.Sprintf("%032x-1", n)
		require.NoError(t, rdb.ZAdd(t.Context(), "guard:{k}:queue", redis.Z{Score: float64(1e15 + n), Member: id}).Err())
	}
	require.NoError(t, rdb.ZAdd(t.Context(), "guard:{k}:queue", redis.Z{Score: -1e15, Member: "tombstone-1"}).Err())
	info, err := inspect.New(rdb).Get(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, 150, info.Queued)
	require.Len(t, info.Waiting, 100)
	assert.Equal(t, []bool{true, true, false}, []bool{info.Waiting[0].Front, info.Waiting[1].Front, info.Waiting[2].Front})
}

func TestLook_LookingWritesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a := guardOn(t, s.Client(t), guard.Instance(""))
	h := hold(t, a, "k")
	newWork(t, rdb, "recorded").done("result")
	writes := func() string {
		text, err := rdb.Info(t.Context(), "persistence").Result()
		require.NoError(t, err)
		_, text, _ = strings.Cut(text, "rdb_changes_since_last_save:")
		text, _, _ = strings.Cut(text, "\r\n")
		return text
	}
	i, before := inspect.New(rdb), writes()
	for range 10 {
		_, err := i.Get(t.Context(), "k")
		require.NoError(t, err)
		_, err = i.Get(t.Context(), "free")
		require.NoError(t, err)
		for _, err := range i.All(t.Context(), "*") {
			require.NoError(t, err)
		}
		_, err = i.Revoke(t.Context(), "k", 1)
		require.NoError(t, err)
		_, err = i.Break(t.Context(), "free", 1)
		require.NoError(t, err)
		_, err = i.Get(t.Context(), "recorded")
		require.NoError(t, err)
		_, err = i.Forget(t.Context(), "free")
		require.NoError(t, err)
	}
	assert.Equal(t, before, writes())
	close(h.finish)
	require.NoError(t, <-h.result)
}

func TestLook_AllShowsWhatMatches(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	a, other := guardOn(t, s.Client(t), guard.Prefix("a*[b]?")), guardOn(t, s.Client(t))
	for _, foreign := range []string{"a*[b]?:{x}:queue", "a*[b]?:{}", "axbb:{x}", "a*[b]?:x", `a*[b]?:{x\}`, `a*[b]?:{\a}`} {
		require.NoError(t, rdb.HSet(t.Context(), foreign, "12345678-1", "1 1 0 - ").Err())
	}
	require.NoError(t, rdb.Set(t.Context(), "a*[b]?:{string}", "x", 0).Err())
	keys := []string{"order:1", "order:2", "orders", "}", "{", "{}x", `\`, `a}b\c`, "订单:42", "*", "order:[1]"}
	for _, key := range keys {
		hold(t, a, key)
	}
	hold(t, other, "order:3")
	i := inspect.New(rdb, inspect.Prefix("a*[b]?"))
	for match, want := range map[string][]string{
		"": keys, "*": keys, "order:*": {"order:1", "order:2", "order:[1]"}, "order:?": {"order:1", "order:2"},
		"order:[2-9]": {"order:2"}, "order:[^2]": {"order:1"}, `order:\[*`: {"order:[1]"}, "}": {"}"}, `\\`: {`\`},
		"订?:*": {"订单:42"}, "none": nil, `\*`: {"*"}, "a*c": {`a}b\c`}, "?": {"}", "{", `\`, "*"}, "*1*": {"order:1", "order:[1]"},
	} {
		var got []string
		for info, err := range i.All(t.Context(), match) {
			require.NoError(t, err, match)
			require.Len(t, info.Holders, 1)
			got = append(got, info.Key)
		}
		assert.ElementsMatch(t, want, got, match)
	}
	n := 0
	for _, err := range i.All(t.Context(), "") {
		require.NoError(t, err)
		if n++; n == 3 {
			break
		}
	}
	assert.Equal(t, 3, n)
}

func TestLook_WhatIsNoLock(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	i := inspect.New(rdb)
	require.NoError(t, rdb.Set(t.Context(), "guard:{string}", "secret", 0).Err())
	require.NoError(t, rdb.HSet(t.Context(), "guard:{by hand}", "name", "secret").Err())
	require.NoError(t, rdb.HSet(t.Context(), "guard:{no owner}", "@fence", "7").Err())
	require.NoError(t, rdb.HSet(t.Context(), "guard:{no number}", "0123456789abcdef-1", "1 seven 0 - ").Err())
	require.NoError(t, rdb.HSet(t.Context(), "guard:{no depth}", "0123456789abcdef-1", "deep 7 0 - ").Err())
	require.NoError(t, rdb.HSet(t.Context(), "guard:{two owners}", "0123456789abcdef-1", "1 7 0 - ", "0123456789abcdef-2", "1 7 0 - ").Err())
	require.NoError(t, rdb.RPush(t.Context(), "guard:{queue}:queue", "secret").Err())
	require.NoError(t, rdb.RPush(t.Context(), "guard:{last}:last", "secret").Err())
	keys := []string{"string", "by hand", "no owner", "no number", "no depth", "two owners", "queue", "last"}
	for _, key := range keys {
		_, err := i.Get(t.Context(), key)
		var format *inspect.FormatError
		require.ErrorAs(t, err, &format, key)
		require.ErrorIs(t, err, inspect.ErrFormat)
		assert.Equal(t, key, format.Key)
		assert.NotContains(t, err.Error(), "secret")
		assert.NotContains(t, err.Error(), key+" ")
	}
	broken := 0
	for info, err := range i.All(t.Context(), "") {
		require.ErrorIs(t, err, inspect.ErrFormat)
		assert.NotEmpty(t, info.Key)
		broken++
	}
	assert.Equal(t, 5, broken, "it goes on")

	before := dump(t, rdb)
	for _, key := range keys {
		for _, fence := range []uint64{0, 1, 7, 8, 1 << 63} {
			there, err := i.Revoke(t.Context(), key, fence)
			if key != "two owners" && key != "queue" && key != "last" && key != "no owner" {
				require.ErrorIs(t, err, inspect.ErrFormat, key)
			} else if err == nil && there {
				assert.Equal(t, uint64(7), fence, key)
				for owner := range rdb.HGetAll(t.Context(), "guard:{"+key+"}").Val() {
					require.NoError(t, rdb.HSet(t.Context(), "guard:{"+key+"}", owner, "1 7 0 - ").Err())
				}
			}
		}
		_, err := i.Break(t.Context(), key, 3)
		if err != nil {
			require.ErrorIs(t, err, inspect.ErrFormat)
		}
	}
	assert.Equal(t, before, dump(t, rdb))
}

func dump(t *testing.T, rdb *redis.Client) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		all[key] = fmt.Sprint(rdb.Type(t.Context(), key).Val(), rdb.HGetAll(t.Context(), key).Val(),
			rdb.Get(t.Context(), key).Val(), rdb.LRange(t.Context(), key, 0, -1).Val())
	}
	return all
}

func TestLook_BadInput(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	good := inspect.New(rdb, nil)
	calls := func(i *inspect.Inspector, ctx context.Context, key string) (errs []error) {
		_, err := i.Get(ctx, key)
		_, revoke := i.Revoke(ctx, key, 1)
		_, broken := i.Break(ctx, key, 1)
		_, forget := i.Forget(ctx, key)
		return []error{err, revoke, broken, forget}
	}
	for _, key := range []string{"", "\xff", strings.Repeat("k", guard.MaxKeyLength+1)} {
		for _, err := range calls(good, t.Context(), key) {
			require.ErrorIs(t, err, guard.ErrKey)
		}
	}
	for name, i := range map[string]*inspect.Inspector{
		"nil": nil, "zero": {}, "nil client": inspect.New(nil), "nil pointer": inspect.New((*redis.Client)(nil)),
		"no prefix": inspect.New(rdb, inspect.Prefix("")), "braces": inspect.New(rdb, inspect.Prefix("a{b")),
		"no UTF-8": inspect.New(rdb, inspect.Prefix("\xff")),
	} {
		all := calls(i, t.Context(), "k")
		for _, err := range i.All(t.Context(), "") {
			all = append(all, err)
		}
		require.Len(t, all, 5, name)
		for _, err := range all {
			require.ErrorIs(t, err, guard.ErrOption, name)
		}
	}
	for _, err := range calls(good, nil, "k") {
		require.ErrorIs(t, err, guard.ErrOption)
	}
}

func TestLook_AnUnreachableRedis(t *testing.T) {
	t.Parallel()
	nobody := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer nobody.Close()
	s := redistest.Start(t)
	proxy := redistest.NewProxy(t, s.Addr())
	silent := proxy.Client(t)
	proxy.Freeze()
	for name, rdb := range map[string]*redis.Client{"nobody": nobody, "silent": silent} {
		i := inspect.New(rdb)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		begun := time.Now()
		_, err := i.Get(ctx, "k")
		require.ErrorIs(t, err, guard.ErrStore, name)
		_, err = i.Revoke(ctx, "k", 1)
		require.ErrorIs(t, err, guard.ErrStore, name)
		_, err = i.Break(ctx, "k", 1)
		require.ErrorIs(t, err, guard.ErrStore, name)
		_, err = i.Forget(ctx, "k")
		require.ErrorIs(t, err, guard.ErrStore, name)
		n := 0
		for _, err := range i.All(ctx, "") {
			require.ErrorIs(t, err, guard.ErrStore, name)
			n++
		}
		assert.Equal(t, 1, n)
		assert.Less(t, time.Since(begun), patience/2, "it heeds its context")
		cancel()
	}
	proxy.Thaw()
}

// The embedded Redis does not know the commands of Redis 7 that only read.
func TestLook_OnTheEmbeddedRedis(t *testing.T) {
	t.Parallel()
	rdb := guardtest.NewRedis(t)
	g, i := guardOn(t, rdb), inspect.New(rdb)
	h := hold(t, g, "k")
	n := 0
	for info, err := range i.All(t.Context(), "k") {
		require.NoError(t, err)
		n += len(info.Holders)
	}
	assert.Equal(t, 1, n)
	revoked(t, i, "k", fenceOf(t, i, "k"))
	ended(t, h.ctx)
	close(h.finish)
	require.ErrorIs(t, <-h.result, guard.ErrRevoked)
}
