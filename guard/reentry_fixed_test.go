package guard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// A FixedLease is never renewed, whatever its lock tolerates: a nested call, its end and a Check
// ask whether the hold is there, and move no expiry.
func TestReentryFixed_NestedCallsDoNotRenewAFixedLease(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string][]guard.LockOption{
		"exclusive": nil, "a permit": {guard.Limit(2)}, "a reader": {guard.Shared()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testenv.NewRedis(t)
			g := s.Guard(testenv.Patient)
			outer := s.Acquire(g, "k", append(kind, guard.FixedLease(), guard.TTL(time.Minute))...)
			const shorter = 40 * time.Second
			require.NoError(t, s.Admin.PExpire(t.Context(), "guard:{k}", shorter).Err())
			inner, err := g.Acquire(outer.Context(), guard.Key("k"), kind...)
			require.NoError(t, err)
			require.NoError(t, inner.Check(t.Context()))
			s.Release(inner)
			assert.LessOrEqual(t, s.Admin.PTTL(t.Context(), "guard:{k}").Val(), shorter)
			s.Release(outer)
		})
	}
}
