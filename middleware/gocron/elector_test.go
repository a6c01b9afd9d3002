package guardgocron_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
	guardgocron "github.com/redlatch/redlatch/middleware/gocron"
)

var jobs = guard.Key("jobs")

func TestElector_OneElectorLeadsAndTheNextTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		a := guardgocron.Elector(ctx, newGuard(t, s), jobs)
		synctest.Wait()
		later, cancelLater := context.WithCancel(t.Context())
		defer cancelLater()
		b := guardgocron.Elector(later, newGuard(t, s), jobs)
		synctest.Wait()
		require.NoError(t, a.IsLeader(t.Context()))
		require.ErrorIs(t, b.IsLeader(t.Context()), guardgocron.ErrNotLeader)

		cancel()
		require.ErrorIs(t, a.IsLeader(t.Context()), guardgocron.ErrNotLeader, "at once")
		time.Sleep(50 * time.Millisecond)
		require.ErrorIs(t, a.IsLeader(t.Context()), context.Canceled)
		require.NoError(t, b.IsLeader(t.Context()))
	})
}

// A leader that cannot renew says no before its lease is over for Redis.
func TestElector_ALeaderThatLostItsLockSaysNoBeforeAnotherLeads(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all := []gocron.Elector{
			guardgocron.Elector(ctx, newGuard(t, s, guard.TTL(time.Second)), jobs),
			guardgocron.Elector(ctx, newGuard(t, s, guard.TTL(time.Second)), jobs),
		}
		leaders := func() (n int) {
			for _, e := range all {
				if e.IsLeader(ctx) == nil {
					n++
				}
			}
			return n
		}
		synctest.Wait()
		for range 2 {
			require.Equal(t, 1, leaders())
			s.Fail(&guardstore.RefusedError{Err: errors.New("down")})
			time.Sleep(995 * time.Millisecond)
			assert.Zero(t, leaders(), "the ttl is not over yet")
			s.Fail(nil)
			for leaders() == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
	})
}

// kept is a context that keeps the watchdog, which ends a context below it.
type kept struct {
	context.Context
	from  atomic.Bool
	until chan struct{}
}

func (k *kept) Done() <-chan struct{} {
	if k.from.Load() {
		<-k.until
	}
	return k.Context.Done()
}

// What the clock says is known, though the watchdog did not get to it.
func TestElector_ALeaderWhoseLeaseLapsedSaysNoByTheClock(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g, keeps := newGuard(t, s, guard.TTL(time.Second)), &kept{Context: t.Context(), until: make(chan struct{})}
		_, err := g.Acquire(keeps, guard.Key("other"), guard.MaxHold(time.Millisecond))
		require.NoError(t, err)
		keeps.from.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := guardgocron.Elector(ctx, g, jobs)
		synctest.Wait()
		require.NoError(t, e.IsLeader(t.Context()))
		time.Sleep(2 * time.Second)
		assert.ErrorIs(t, e.IsLeader(t.Context()), guardgocron.ErrNotLeader)
		close(keeps.until)
	})
}

func TestElector_AnElectorSaysWhyItNeverLeads(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		g := newGuard(t, s)
		never := guardgocron.Elector(t.Context(), g, guard.Key(""))
		nobody := guardgocron.Elector(t.Context(), nil, jobs)
		closed := guardgocron.Elector(t.Context(), g, jobs)
		found := guardgocron.Elector(guard.WithGuard(t.Context(), newGuard(t, s)), nil, guard.Key("other"))
		synctest.Wait()
		require.ErrorIs(t, never.IsLeader(t.Context()), guard.ErrKey)
		require.ErrorIs(t, nobody.IsLeader(t.Context()), guard.ErrNoGuard)
		require.NoError(t, found.IsLeader(t.Context()))
		require.NoError(t, closed.IsLeader(t.Context()))
		require.NoError(t, g.Close())
		synctest.Wait()
		err := closed.IsLeader(t.Context())
		require.ErrorIs(t, err, guard.ErrClosed)
		require.ErrorIs(t, err, guardgocron.ErrNotLeader)
	})
	assert.PanicsWithValue(t, "guardgocron: no KeyFunc", func() { guardgocron.Elector(t.Context(), nil, nil) })
	assert.Panics(t, func() { guardgocron.Elector(t.Context(), nil, jobs, guard.TTL(1)) })
}
