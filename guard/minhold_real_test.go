package guard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// On a server, all that is left of the hold has an end, and the fence is remembered for
// longer than the key is taken.
func TestMinHold_LeavesNothingWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	g := s.Guard(testenv.Patient)
	l := s.Acquire(g, "k", guard.MinHold(time.Hour), guard.Metadata("worker 7"))
	owner := l.Owner()
	s.Release(l)
	fields, err := s.Admin.HGetAll(t.Context(), "guard:{k}").Result()
	require.NoError(t, err)
	assert.Len(t, fields, 1)
	assert.Regexp(t, `^0 \d+ \d+ - worker 7$`, fields[owner], "no call is open")
	left := s.Admin.PTTL(t.Context(), "guard:{k}").Val()
	assert.Greater(t, left, time.Hour-time.Minute)
	assert.LessOrEqual(t, left, time.Hour)
	assert.Greater(t, s.Admin.PTTL(t.Context(), "guard:{k}:last").Val(), left+30*time.Second)

	err = g.WithLock(t.Context(), guard.Key("k"), quick, guard.NoWait())
	var busy *guard.BusyError
	require.ErrorAs(t, err, &busy)
	assert.Equal(t, "lock_held_over", busy.ErrorType())
	assert.InDelta(t, time.Hour, busy.RetryAfter, float64(time.Minute))
}

// A server whose clock was set back keeps the key for no longer than it was asked to.
func TestMinHold_IsNeverLongerThanAskedFor(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	l := s.Acquire(s.Guard(testenv.Patient), "k", guard.MinHold(time.Minute))
	value := fmt.Sprint("1 ", l.Fence(), " 0 a", time.Now().Add(time.Hour).UnixMicro(), " ")
	require.NoError(t, s.Admin.HSet(t.Context(), "guard:{k}", l.Owner(), value).Err())
	s.Release(l)
	left := s.Admin.PTTL(t.Context(), "guard:{k}").Val()
	assert.Greater(t, left, 30*time.Second)
	assert.LessOrEqual(t, left, time.Minute)
}

// A release that is executed late, and a second time, keeps no longer than the first.
func TestMinHold_SurvivesALostReply(t *testing.T) {
	t.Parallel()
	s := testenv.NewRedis(t)
	proxy, client := s.Proxy()
	g := s.GuardOn(client, guard.StoreTimeout(10*time.Second))
	s.Visit(g, "open the connection")
	l := s.Acquire(g, "k", guard.MinHold(3*time.Second))
	granted := time.Now()
	swallowed := proxy.SwallowReply(s.Runs("release", 1), 1)
	require.NoError(t, l.Release(t.Context()), "it is repeated")
	<-swallowed
	left := s.Admin.PTTL(t.Context(), "guard:{k}").Val()
	assert.LessOrEqual(t, left, 3*time.Second-time.Since(granted)+100*time.Millisecond)
	assert.Positive(t, left)
}
