package inspect_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
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
	assert.Equal(t, []string{testenv.Owner(h.Lease)}, r.rdb.ZRange(t.Context(), "redlatch:{k}:ended", 0, -1).Val(), "a late acquire of the owner is not heeded")
	r.breaks("k", h.Fence(), false)
	assert.GreaterOrEqual(t, r.get("k").LastFence, in.Fence())
	in.finish(nil)
	h.finish(guard.ErrRevoked)
}

// holds is a Redis with a hold on k, under an owner and a fence of the test.
func (r *env) holds(owner string, fence uint64) {
	r.Helper()
	require.NoError(r, r.rdb.HSet(r.Context(), "redlatch:{k}", owner, "1 "+strconv.FormatUint(fence, 10)+" 60000 - ").Err())
	require.NoError(r, r.rdb.PExpire(r.Context(), "redlatch:{k}", time.Minute).Err())
}

// A fence may be ahead of a clock that was set back: until that has caught up, a later fence is above it.
func TestBreak_RemembersAFenceAheadOfTheClock(t *testing.T) {
	r := newEnv(t)
	fence := uint64(time.Now().Add(time.Hour).UnixMicro())
	for _, next := range []uint64{fence, fence - 1000, 1000} {
		r.holds("x-1", next)
		r.breaks("k", next, true)
		require.Zero(t, r.rdb.Exists(t.Context(), "redlatch:{k}").Val())
		assert.Equal(t, fence, r.get("k").LastFence)
	}
	assert.Greater(t, r.rdb.PTTL(t.Context(), "redlatch:{k}:ended").Val(), 59*time.Minute)
}
