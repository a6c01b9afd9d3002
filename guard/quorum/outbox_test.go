package quorum

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// A server that does not answer is asked for one thing at a time, and less and less often. When
// it does, it is asked for the rest at once.
func TestOutbox_Pauses(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		begun := time.Now()
		var up atomic.Bool
		var tries []time.Duration
		var calls, answered atomic.Int32
		const many = 10
		for range many {
			s.deliverLater(t.Context(), 0, errBroken, time.Hour, func(context.Context) error {
				calls.Add(1)
				if !up.Load() {
					tries = append(tries, time.Since(begun)) // one at a time
					return errBroken
				}
				answered.Add(1)
				return nil
			})
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		const ms = time.Millisecond
		assert.Equal(t, []time.Duration{20 * ms, 60 * ms, 140 * ms, 240 * ms, 340 * ms, 440 * ms}, tries[:6])
		assert.Len(t, tries, 11)
		up.Store(true)
		time.Sleep(outboxLongestPause)
		synctest.Wait()
		assert.EqualValues(t, many, answered.Load())
		require.Len(t, tries, 11)
		assert.EqualValues(t, len(tries)+many, calls.Load(), "no answer is asked for twice")
	})
}

// What a server answers, or refuses, is not asked for again.
func TestOutbox_TakesWhatIsNotAnswered(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		var calls atomic.Int32
		for _, err := range []error{nil, errRefused} {
			s.deliverLater(t.Context(), 0, err, time.Hour, func(context.Context) error { calls.Add(1); return nil })
		}
		time.Sleep(time.Minute)
		assert.Zero(t, calls.Load())
		s.deliverLater(t.Context(), 0, errBroken, time.Hour, func(context.Context) error { calls.Add(1); return errRefused })
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, calls.Load())
	})
}

// What is left when its time is up is dropped, also behind others.
func TestOutbox_DropsWhatIsOver(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		var short, long int
		s.deliverLater(t.Context(), 0, errBroken, 2*time.Second, func(context.Context) error { long++; return errBroken })
		s.deliverLater(t.Context(), 0, errBroken, 0, func(context.Context) error { short++; return errBroken })
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, long, short)
		assert.Positive(t, short)
		s.releases[0].mu.Lock()
		defer s.releases[0].mu.Unlock()
		assert.Empty(t, s.releases[0].deliveries)
		assert.False(t, s.releases[0].draining)
	})
}

// Whoever comes later is heard, when nobody asked any more.
func TestOutbox_BeginsAnew(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		var calls atomic.Int32
		for range 3 {
			s.deliverLater(t.Context(), 0, errBroken, time.Second, func(context.Context) error { calls.Add(1); return nil })
			time.Sleep(time.Second)
		}
		assert.EqualValues(t, 3, calls.Load())
	})
}

// A call has as much time as any, and the values of who asked for it, but not its end.
func TestOutbox_HasItsOwnTime(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		var took []time.Duration
		s.deliverLater(ctx, 0, errBroken, 0, func(ctx context.Context) error {
			assert.Equal(t, "value", ctx.Value(key{}))
			took = append(took, takes(func() { _ = hangs(ctx) }))
			return errBroken
		})
		cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []time.Duration{nodeTimeout}, took)
	})
}

// There is an end to what is kept for one server.
func TestOutbox_IsBounded(t *testing.T) {
	var o outbox
	late := clock.Now().Add(time.Hour)
	assert.True(t, o.put(delivery{until: late}), "the first one begins")
	for range outboxMost + 10 {
		assert.False(t, o.put(delivery{until: late}))
	}
	o.put(make([]delivery, 10)...)
	assert.Len(t, o.deliveries, outboxMost)
	assert.Len(t, o.take(outboxAtOnce), outboxAtOnce)
	assert.Len(t, o.deliveries, outboxMost-outboxAtOnce)
}

// One server's calls do not wait for those of another one, and repairs not for releases.
func TestOutbox_OutboxesAreApart(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.deliverLater(t.Context(), 0, errBroken, time.Hour, hangs)
		var calls atomic.Int32
		s.deliverLater(t.Context(), 1, errBroken, time.Hour, func(context.Context) error { calls.Add(1); return nil })
		time.Sleep(2 * outboxPause)
		assert.EqualValues(t, 1, calls.Load())
		s.nodes[0].wipe()
		s.forget()
		require.True(t, s.Renew(t.Context(), []guardstore.Grant{g})[0].Held)
		synctest.Wait()
		assert.Equal(t, 1, s.nodes[0].count("acquire"))
	})
}

// Close does not wait for what servers that are down have not confirmed.
func TestOutbox_CloseEndsTheOutbox(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		s.nodes[0].on("release", fails(errBroken))
		_, err := s.Release(t.Context(), releaseOf(g))
		require.NoError(t, err)
		synctest.Wait()
		assert.Zero(t, takes(func() { require.NoError(t, s.Close()) }))
	})
}

// Close lets what is on its way finish, for a while. Then the servers' connections are closed,
// and it joins the rest.
func TestOutbox_CloseLetsCallsFinish(t *testing.T) {
	for name, c := range map[string]struct{ release, closed, joined time.Duration }{
		"soon": {closeGrace / 2, closeGrace / 2, closeGrace / 2},
		"late": {nodeTimeout * 3 / 4, closeGrace, nodeTimeout * 3 / 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeQuorum(t, 3, false)
				g := s.hold(t)
				s.nodes[0].on("release", slow(c.release))
				_, err := s.Release(t.Context(), releaseOf(g))
				require.NoError(t, err)
				begun := time.Now()
				time.AfterFunc(c.closed-time.Millisecond, func() { assert.Equal(t, []bool{false, false, false}, s.closedNodes()) })
				time.AfterFunc(c.closed+time.Millisecond, func() { assert.Equal(t, []bool{true, true, true}, s.closedNodes()) })
				assert.NoError(t, s.Close())
				assert.Equal(t, c.joined, time.Since(begun))
				assert.Empty(t, s.nodes[0].heldBy())
				time.Sleep(time.Minute)
			})
		})
	}
}

// The errors of all servers are reported.
func TestOutbox_CloseReportsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeQuorum(t, 3, false)
		one, two := errors.New("one"), errors.New("two")
		s.nodes[0].onClose, s.nodes[2].onClose = one, two
		err := s.Close()
		require.ErrorIs(t, err, one)
		require.ErrorIs(t, err, two)
		assert.Equal(t, []bool{true, true, true}, s.closedNodes())
	})
}

// A call after Close is made on its caller's goroutine: a hold is given back all the same.
func TestOutbox_CloseLeavesTheLastCallsToTheirCallers(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold(t)
		require.NoError(t, s.Close())
		_, err := s.Release(t.Context(), releaseOf(g))
		require.NoError(t, err)
		assert.Equal(t, []string{"", "", ""}, s.holders())
	})
}

func (s *fakeQuorum) closedNodes() (closed []bool) {
	for _, f := range s.nodes {
		f.mu.Lock()
		closed = append(closed, f.closed)
		f.mu.Unlock()
	}
	return closed
}
