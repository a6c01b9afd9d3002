package guard_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// That nobody answers takes a StoreTimeout to be sure of. That nobody listens is known
// sooner: what restarts is back within half of it, or takes longer anyway.
func TestRepeat_ACallEndsSoonerWhereNobodyListens(t *testing.T) {
	const timeout = 10 * time.Second
	for name, test := range map[string]struct {
		failure error
		after   time.Duration
	}{
		"nobody answers": {errors.New("EOF"), timeout},
		"nobody listens": {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, timeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
				s.Fail(test.failure)
				begun := time.Now()
				_, err := g.Acquire(t.Context(), testenv.Order)
				require.ErrorIs(t, err, guard.ErrStore)
				require.ErrorIs(t, err, test.failure)
				assert.Equal(t, test.after, time.Since(begun))
			}, guard.StoreTimeout(timeout))
		})
	}
}

// What is given back behind a caller is asked for as long as the lock may be kept: nobody
// waits for it.
func TestRepeat_AReleaseGoesOnWhereNobodyListens(t *testing.T) {
	const timeout, ttl = 10 * time.Second, time.Minute
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		l, err := g.Acquire(t.Context(), testenv.Order)
		require.NoError(t, err)
		s.Fail(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
		begun := time.Now()
		require.Error(t, l.Release(t.Context()))
		assert.LessOrEqual(t, time.Since(begun), timeout/2)
		time.Sleep(timeout)
		require.Equal(t, 1, s.Depth("order:42"))
		s.Fail(nil)
		time.Sleep(time.Second)
		assert.Zero(t, s.Depth("order:42"))
	}, guard.StoreTimeout(timeout), guard.TTL(ttl))
}
