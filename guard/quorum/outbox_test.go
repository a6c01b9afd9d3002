package quorum

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/internal/clock"
)

// later repeats a call that the first server did not answer, and counts it.
func (s *fakeQuorum) later(ttl time.Duration, err error) (calls *int) {
	calls = new(int)
	s.deliverLater(s.t.Context(), 0, errBroken, ttl, func(context.Context) error { *calls++; return err })
	return calls
}

// A server that does not answer is asked for one thing at a time, ever less often; when it does, for the rest at once.
func TestOutbox_Pauses(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		begun := time.Now()
		var tries []time.Duration
		s.nodes[0].set(does("acquire", func(context.Context) error {
			tries = append(tries, time.Since(begun))
			return errBroken
		}))
		const many = 10
		for range many {
			s.deliverLater(t.Context(), 0, errBroken, time.Hour, func(ctx context.Context) error {
				_, err := s.nodes[0].Acquire(ctx, claim("a-1"))
				return err
			})
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		const ms = time.Millisecond
		assert.Equal(t, []time.Duration{20 * ms, 60 * ms, 140 * ms, 240 * ms, 340 * ms, 440 * ms}, tries[:6])
		require.Len(t, tries, 11)
		s.nodes[0].set(does("acquire", nil))
		s.forget()
		time.Sleep(outboxLongestPause)
		s.counts("acquire", many, 0, 0) // no answer is asked for twice
	})
}

func TestOutbox_DropsWhatHasEndedAlsoAfterOthers(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		long, short := s.later(2*time.Second, errBroken), s.later(0, errBroken)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, *long, *short)
		assert.Positive(t, *short)
		o := &s.releases[0]
		assert.Empty(t, o.deliveries)
		assert.False(t, o.draining)
		for range 3 {
			again := s.later(time.Second, nil)
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(t, 1, *again, "it begins anew")
		}
	})
}

func TestOutbox_IsBounded(t *testing.T) {
	var o outbox
	one := delivery{until: clock.Now().Add(time.Hour)}
	assert.True(t, o.put(one), "the first one begins")
	for range outboxMost + 10 {
		assert.False(t, o.put(one))
	}
	o.put(make([]delivery, 10)...)
	assert.Len(t, o.deliveries, outboxMost)
	assert.Len(t, o.take(outboxAtOnce), outboxAtOnce)
	assert.Len(t, o.deliveries, outboxMost-outboxAtOnce)
}

// One server's calls do not wait for those of another one, and repairs not for releases. A call that hangs is repeated.
func TestOutbox_IsOneAServerAndPurpose(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		var calls, hung atomic.Int32
		s.deliverLater(t.Context(), 0, errBroken, time.Hour, func(ctx context.Context) error { hung.Add(1); return hangs(ctx) })
		s.deliverLater(t.Context(), 1, errBroken, time.Hour, func(context.Context) error { calls.Add(1); return nil })
		time.Sleep(2 * outboxPause)
		synctest.Wait()
		assert.EqualValues(t, 1, calls.Load())
		s.nodes[0].set(wiped)
		s.forget()
		s.renewHeld(g)
		s.counts("acquire", 1, 0, 0)
		time.Sleep(2 * nodeTimeout)
		assert.Greater(t, hung.Load(), int32(1))
	})
}

// Close does not wait for what servers that are down have not confirmed.
func TestClose_EndsTheOutbox(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.nodes[0].set(does("release", fails(errBroken)))
		s.mustRelease(g)
		synctest.Wait()
		assert.Zero(t, takes(func() { require.NoError(t, s.Close()) }))
	})
}

// Close lets calls finish, for a while. Then it closes the servers' connections, and joins the rest.
func TestClose_LetsCallsFinish(t *testing.T) {
	for name, c := range map[string]struct{ release, closed, joined time.Duration }{
		"soon": {closeGrace / 2, closeGrace / 2, closeGrace / 2},
		"late": {nodeTimeout * 3 / 4, closeGrace, nodeTimeout * 3 / 4},
	} {
		run(t, name, 3, false, func(t *testing.T, s *fakeQuorum) {
			g := s.hold()
			s.nodes[0].set(does("release", slow(c.release)))
			s.mustRelease(g)
			begun := time.Now()
			time.AfterFunc(c.closed-time.Millisecond, func() { s.closed(false) })
			time.AfterFunc(c.closed+time.Millisecond, func() { s.closed(true) })
			require.NoError(t, s.Close())
			assert.Equal(t, c.joined, time.Since(begun))
			s.holders("", "", "")
			time.Sleep(time.Minute)
		})
	}
}

// A call after Close is made on its caller's goroutine: a hold is given back all the same.
func TestClose_LeavesTheLastCallsToTheirCallers(t *testing.T) {
	virtually(t, func(t *testing.T, s *fakeQuorum) {
		g := s.hold()
		s.nodes[0].onClose = errBroken
		require.ErrorIs(t, s.Close(), errBroken)
		s.mustRelease(g)
		s.holders("", "", "")
	})
}

// closed checks whether the servers' connections are closed.
func (s *fakeQuorum) closed(want bool) {
	s.t.Helper()
	s.each(func(f *fake) { assert.Equal(s.t, want, f.closed) })
}
