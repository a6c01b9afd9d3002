package guardgocron_test

import (
	"context"
	"errors"
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

// slow is an Observer that takes its time with the loss of one lock. That holds up the watchdog.
type slow struct {
	guard.NopObserver
	until chan struct{}
}

func (s slow) Event(_ context.Context, l guard.Lock, e guard.Event) {
	if l.Name == "slow" && e.Kind == guard.Loss {
		<-s.until
	}
}

// What the clock says is known before anybody is told.
func TestElector_ALeaderWhoseLeaseLapsedSaysNoBeforeItIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, s *guardtest.Store) {
		until := make(chan struct{})
		g := newGuard(t, s, guard.TTL(time.Second), guard.Observe(slow{until: until}))
		_, err := g.Acquire(t.Context(), guard.Key("slow"), guard.Name("slow"))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.Sleep(10 * time.Millisecond) // its lease lapses after the slow one's
		e := guardgocron.Elector(ctx, g, jobs)
		synctest.Wait()
		require.NoError(t, e.IsLeader(t.Context()))
		s.Fail(&guardstore.RefusedError{Err: errors.New("down")})
		time.Sleep(2 * time.Second)
		assert.ErrorIs(t, e.IsLeader(t.Context()), guardgocron.ErrNotLeader)
		close(until)
		s.Fail(nil)
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
