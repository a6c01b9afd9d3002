package inspect_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/inspect"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestBreak_FreesTheKeyAtOnce(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(), "k", guard.TTL(time.Hour))
	next := r.start(r.guard(), "k")
	r.await("k", 1, 1)
	r.breaks("k", h.Fence()+1, false)
	r.breaks("k", h.Fence(), true)
	in := <-next
	assert.Greater(t, in.Fence(), h.Fence())
	h.awaitEnd()
	// A late acquire of the owner is not heeded: see what stands in the queue.
	assert.Equal(t, int64(1), r.rdb.ZCount(t.Context(), "redlatch:{k}:queue", "-inf", "(0").Val())
	r.breaks("k", h.Fence(), false)
	assert.GreaterOrEqual(t, r.get("k").LastFence, in.Fence())
	in.finish(nil)
	h.finish(guard.ErrRevoked)
}

// The second try would say that the hold was not there: it is gone by then.
func TestBreak_IsNotSentAgain(t *testing.T) {
	r := newEnv(t)
	h := r.hold(r.guard(), "k", guard.TTL(time.Second)) // its renewal finds out
	proxy := redistest.NewProxy(t, r.server.Addr())
	through := r.with(inspect.New(proxy.Client(t, func(o *redis.Options) { o.MaxRetries = 3 })))
	through.breaks("k", h.Fence()+1, false) // Redis knows the script now
	fired := proxy.SwallowReply(redistest.Command("evalsha"), 1)
	there, err := through.Break(t.Context(), "k", h.Fence())
	require.ErrorIs(t, err, guard.ErrStore)
	require.False(t, there)
	<-fired
	h.ends(guard.ErrLost)
}

// holds is a Redis with a hold on k, under an owner and a fence of the test.
func (r *env) holds(owner string, fence uint64) {
	r.Helper()
	require.NoError(r, r.rdb.HSet(r.Context(), "redlatch:{k}", owner, "1 "+strconv.FormatUint(fence, 10)+" 0 - ").Err())
	require.NoError(r, r.rdb.PExpire(r.Context(), "redlatch:{k}", time.Minute).Err())
}

// A server of a quorum may know of a higher fence than the one that it granted. A fence may be ahead of a clock that was
// set back: until that has caught up, a later fence is above it.
func TestBreak_RemembersTheHighestFence(t *testing.T) {
	r := newEnv(t)
	r.holds("x-1", 1000)
	require.NoError(t, r.rdb.Set(t.Context(), "redlatch:{k}:last", "5000 ", time.Minute).Err())
	r.breaks("k", 1000, true)
	require.Zero(t, r.rdb.Exists(t.Context(), "redlatch:{k}").Val())
	last, _, _ := strings.Cut(r.rdb.Get(t.Context(), "redlatch:{k}:last").Val(), " ")
	assert.Equal(t, "5000", last)

	fence := uint64(time.Now().Add(time.Hour).UnixMicro()) //nolint:gosec // after 1970
	r.holds("x-1", fence)
	r.breaks("k", fence, true)
	assert.Greater(t, r.rdb.PTTL(t.Context(), "redlatch:{k}:last").Val(), time.Hour)
}

func TestBreak_EndsAllRoundsOfAClaim(t *testing.T) {
	r := newEnv(t)
	r.holds("x-1~2", 1000)
	r.breaks("k", 1000, true)
	keys := []string{"redlatch:{k}", "redlatch:{k}:queue", "redlatch:{k}:last", "redlatch:{k}:seen", "redlatch:{k}:holders"}
	for late, held := range map[string]bool{"x-1~3": false, "x-1": false, "x-12~1": true} {
		reply, err := r.rdb.Eval(t.Context(), redisstore.Scripts()["acquire"], keys, late, 60000, "", "0", "", "1redlatch:grant:", "").Result()
		require.NoError(t, err, late)
		_, is := reply.(string)
		assert.Equal(t, held, is, late)
		require.NoError(t, r.rdb.Del(t.Context(), "redlatch:{k}").Err())
	}
}
