package guard_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardtest"
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

// Of several leases, one that was lost is told before one that was released.
func TestLeasesErr_LeasesTellALossBeforeARelease(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		ls, err := g.AcquireAll(t.Context(), keysOf("a b"))
		require.NoError(t, err)
		all := ls.All()
		s.Drop("b")
		require.ErrorIs(t, all[1].Check(t.Context()), guard.ErrLost)
		require.NoError(t, all[0].Release(t.Context()))
		require.ErrorIs(t, ls.Err(), guard.ErrLost)
		require.NotErrorIs(t, ls.Err(), guard.ErrReleased)
		require.Error(t, ls.Release(t.Context()))
	})
}

// The end of the caller's context is told once, of however many releases it was the end.
func TestLeasesErr_TheEndOfTheContextIsInTheResultOfManyReleasesOnce(t *testing.T) {
	inTrouble(t, "releases", func(t *testing.T, s *troubled, g *guard.Guard, _ context.Context) {
		ls, err := g.AcquireAll(t.Context(), keysOf("a b c"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		s.trouble(func(_ context.Context, op, _ string) error {
			if op == "release" {
				cancel()
				return errReply
			}
			return nil
		}, nil)
		err = ls.Release(ctx)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 1, strings.Count(err.Error(), context.Canceled.Error()), err)
		s.trouble(nil, nil)
	})
}

// Readers of one process are revoked: the last one out gives back what is left, and the key is
// free at once.
func TestLeasesErr_TheLastOfRevokedReadersFreesTheKey(t *testing.T) {
	testenv.Bubble(t, func(t *testing.T, g *guard.Guard, s *guardtest.Store, _ *guardtest.Recorder) {
		readers := reading(t, g, 2)
		time.Sleep(100 * time.Millisecond)
		require.True(t, s.Revoke("order:42", readers[0].Fence()))
		synctest.Wait()
		for _, l := range readers {
			require.ErrorIs(t, l.Err(), guard.ErrRevoked)
			require.ErrorIs(t, l.Release(t.Context()), guard.ErrRevoked)
		}
		synctest.Wait()
		assert.Zero(t, s.Depth("order:42"))
		given(t, taken(t, g, guard.NoWait()))
	})
}
