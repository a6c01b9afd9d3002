package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Options with which nobody could lead, or several at once, end Lead before anything is asked.
func TestLeadRefused_LeadRefusesOptionsThatMakeNoLeader(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		for _, row := range []struct {
			want string
			opts []guard.LockOption
		}{
			{"guard: MinHold -1ns is outside 0s to 24h0m0s", []guard.LockOption{guard.MinHold(-1)}},
			{"guard: MinHold 25h0m0s is outside 0s to 24h0m0s", []guard.LockOption{guard.MinHold(25 * time.Hour)}},
			{"guard: MinHold 2s is longer than MaxHold, 1s", []guard.LockOption{guard.MinHold(2 * time.Second), guard.MaxHold(time.Second)}},
			{"guard: MaxHold -1ns is negative", []guard.LockOption{guard.MaxHold(-1)}},
			{"guard: TTL 25h0m0s is outside 100ms to 24h0m0s", []guard.LockOption{guard.TTL(25 * time.Hour)}},
			{"guard: TTL 0s is outside 100ms to 24h0m0s", []guard.LockOption{guard.TTL(0)}},
			{"guard: Limit 0 is outside 1 to 10000", []guard.LockOption{guard.Limit(0)}},
			{"guard: Limit 2 does not go with Lead: only one leads", []guard.LockOption{guard.Limit(2)}},
			{"guard: Shared does not go with Lead: only one leads", []guard.LockOption{guard.Shared()}},
		} {
			err := g.Lead(t.Context(), guard.Key("jobs"), func(context.Context) error { panic("led") }, row.opts...)
			require.EqualError(t, err, row.want)
			require.ErrorIs(t, err, guard.ErrOption)
		}
		assert.Zero(t, s.Calls("acquire"))

		ctx, cancel := context.WithCancel(t.Context())
		err := g.Lead(ctx, guard.Key("jobs"), func(context.Context) error { cancel(); return nil }, guard.Limit(1))
		require.ErrorIs(t, err, context.Canceled, "Limit(1) is a lock as any other")
	})
}
