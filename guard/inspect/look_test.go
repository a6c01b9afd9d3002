package inspect_test

import (
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
	for match, want := range map[string][]string{"": keys, "order:[2-9]": {"order:2"}, "}": {"}"}, `\\`: {`\`}, "订?:*": {"订单:42"}, "none": nil} {
		assert.ElementsMatch(t, want, r.all(match), match)
	}
}

// Pages and logs name the Redis, and nothing that gives access.
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
