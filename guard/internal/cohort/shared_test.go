package cohort_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// The tests of this file are about readers that leave while others hold the same grant.

// believed is for how long the answer that a grant is held counts.
const believed = 5 * time.Millisecond

// reading is a reader at work.
type reading struct {
	b *rig
	cohort.Hold
	holder *noHolder
}

// read begins to read.
func (b *rig) read() *reading {
	b.Helper()
	r := &reading{b, b.has(b.comes(reader)), new(noHolder)}
	r.Watch(r.holder, 0, 0)
	return r
}

// leaves ends the work, and releases the hold.
func (r *reading) leaves(ctx context.Context, p cohort.Patience) error {
	_ = r.Drop(r.holder)
	_, err := r.Release(ctx, p)
	return err
}

func (r *reading) ends() error { return r.leaves(r.b.Context(), cohort.Patience{Most: timeout}) }

// A reader that leaves while another reads asks the store, unless the grant is new. The last one releases.
func TestShared_AReaderThatLeavesAsks(t *testing.T) {
	for age, asks := range map[time.Duration]int{believed - 1: 0, believed: 1} {
		inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
			first, second := b.read(), b.read()
			assert.Equal(b, first.Claim.Owner, second.Claim.Owner)
			time.Sleep(age)
			require.NoError(b, first.ends())
			assert.Len(b, b.Checks(), asks)
			time.Sleep(time.Second)
			require.NoError(b, second.ends())
			assert.Len(b, b.Checks(), asks, "the release says whether it was held")
			b.released(1)
		})
	}
}

// Nothing ran, or it is known that the grant was lost: no reader asks.
func TestShared_NoCheckInVain(t *testing.T) {
	for name, change := range map[string]func(r *reading){
		"unused":    func(r *reading) { r.Unused() },
		"abandoned": func(r *reading) { r.Abandon(r.b.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
				first, second := b.read(), b.read()
				time.Sleep(believed)
				change(first)
				require.NoError(b, first.ends())
				assert.Empty(b, b.Checks())
				require.NoError(b, second.ends())
			})
		})
	}
}

// Readers that leave within a moment ask once. The moment is no longer than the window.
func TestShared_ReadersThatLeaveTogetherAskOnce(t *testing.T) {
	for window, moment := range map[time.Duration]time.Duration{handover: believed, 2 * time.Millisecond: 2 * time.Millisecond} {
		inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
			readers := []*reading{b.read(), b.read(), b.read(), b.read()}
			time.Sleep(time.Second)
			for i, asks := range []int{1, 1, 2} {
				require.NoError(b, readers[i].ends())
				assert.Len(b, b.Checks(), asks)
				time.Sleep([]time.Duration{moment - 1, 1, 0}[i])
			}
			require.NoError(b, readers[3].ends())
		}, func(c *cohort.Config) { c.Handover = window })
	}
}

// The loss is the error of the reader that asks, and ends the work of the others.
func TestShared_AReaderThatLeavesLearnsOfTheLoss(t *testing.T) {
	for want, reply := range map[error]guardstore.RenewReply{watchdog.ErrNotHeld: {}, watchdog.ErrRevoked: {Revoked: true}} {
		inBubble(t, &store{OnAcquire: mint, OnRenew: renews(reply)}, func(b *rig) {
			first, second := b.read(), b.read()
			time.Sleep(believed)
			require.ErrorIs(b, first.ends(), want)
			require.ErrorIs(b, second.Err(), want)
			_ = second.ends()
		})
	}
}

// The store does not answer. The error says what was asked for: of the last reader, that is a release, which is sent
// all the same.
func TestShared_ReadersThatLeaveInAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		p     cohort.Patience
		takes time.Duration
		ended bool // the context has
	}{
		"a call's time": {cohort.Patience{Most: time.Hour}, timeout, false},
		"less":          {cohort.Patience{Most: timeout / 4, Grace: timeout / 8}, timeout / 4, false},
		"the grace":     {cohort.Patience{Most: timeout, Grace: timeout / 8}, timeout / 8, true},
		"a refusal":     {cohort.Patience{Most: timeout}, attempt / 10, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{OnAcquire: mint, OnRenew: func(ctx context.Context, _ int) guardstore.RenewReply {
				<-ctx.Done()
				return guardstore.RenewReply{Err: ctx.Err()}
			}}
			if c.takes == attempt/10 {
				s.OnRenew = func(context.Context, int) guardstore.RenewReply {
					time.Sleep(c.takes)
					return guardstore.RenewReply{Err: &guardstore.RefusedError{Err: errUnanswered}}
				}
			}
			inBubble(t, s, func(b *rig) {
				readers, errs := []*reading{b.read(), b.read()}, make(chan error, 2)
				time.Sleep(believed)
				begun := time.Now()
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				if c.ended {
					cancel()
				}
				for _, r := range readers {
					go func() { errs <- r.leaves(ctx, c.p) }()
				}
				var ops []string
				for range readers {
					var failure *retry.Error
					require.ErrorAs(b, <-errs, &failure)
					ops = append(ops, failure.Op)
					assert.Equal(b, "k", failure.Key)
					assert.Error(b, failure.Err)
				}
				assert.ElementsMatch(b, []string{"check", "release"}, ops)
				assert.Equal(b, c.takes, time.Since(begun))
				b.released(1)
			})
		})
	}
}

// After the end of the Table, the reader asks on its own goroutine.
func TestShared_AReaderThatLeavesAfterTheEnd(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
		first, second := b.read(), b.read()
		time.Sleep(believed)
		b.close()
		require.NoError(b, first.ends())
		assert.Len(b, b.Checks(), 1)
		require.NoError(b, second.ends())
	})
}

// A grant that several have counts as one, whatever they nest.
func TestShared_DepthIsOne(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
		r := b.read()
		r.SetDepth(3)
		require.NoError(b, r.Check(b.Context(), "check", cohort.Patience{Most: timeout}))
		assert.Equal(b, 1, b.Checks()[0].Depth)
		require.NoError(b, r.ends())
	})
}

// A release says what the store has to know of a grant. Where no work ran, it removes the record's beginning.
func TestHold_Release(t *testing.T) {
	once := guardstore.Once{Keep: time.Hour}
	for _, used := range []bool{true, false} {
		inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
			h, holder := b.has(b.comes(one, withRecord)), new(noHolder)
			h.Watch(holder, 0, time.Minute)
			h.Outcome = &guardstore.Outcome{Once: once}
			want := guardstore.Release{
				Key: "k", Owner: h.Claim.Owner, Fence: firstMint, TTL: ttl, Limit: 2, MinHold: time.Minute, Record: h.Outcome,
			}
			if !used {
				h.Unused()
				want.MinHold, want.Record = 0, &guardstore.Outcome{Once: guardstore.Once{Keep: time.Hour, AtMostOnce: true}}
			}
			_ = h.Drop(holder)
			_ = b.ends(h)
			assert.Equal(b, want, b.released(1)[0])
		})
	}
}

// No check moves the expiry, and its answer is the call's.
func TestHold_Check(t *testing.T) {
	for want, reply := range map[error]guardstore.RenewReply{nil: {Held: true}, watchdog.ErrNotHeld: {}, watchdog.ErrRevoked: {Revoked: true}} {
		inBubble(t, &store{OnAcquire: mint, OnRenew: renews(reply)}, func(b *rig) {
			h, holder := b.has(b.comes()), new(noHolder)
			h.Watch(holder, 0, 0)
			h.SetDepth(2)
			deadline := h.Deadline()
			assert.Equal(b, want, h.Check(b.Context(), "check", cohort.Patience{Most: timeout}))
			assert.Equal(b, want, h.Err())
			assert.Equal(b, deadline, h.Deadline())
			require.Len(b, b.Checks(), 1)
			assert.Equal(b, 2, b.Checks()[0].Depth)
			_ = h.Drop(holder)
			_ = b.ends(h)
		})
	}
}

// A check whose caller has left still waits for the answer for the grace.
func TestHold_CheckOfACallerThatLeft(t *testing.T) {
	const takes = 50 * time.Millisecond
	for grace, asked := range map[time.Duration]bool{2 * takes: true, takes / 2: false} {
		inBubble(t, &store{OnAcquire: mint, OnRenew: func(ctx context.Context, _ int) guardstore.RenewReply {
			retry.Pause(ctx, nil, takes)
			return guardstore.RenewReply{Held: true, Err: ctx.Err()}
		}}, func(b *rig) {
			h := b.has(b.comes())
			ctx, cancel := context.WithCancel(b.Context())
			cancel()
			err := h.Check(ctx, "check", cohort.Patience{Most: timeout, Grace: grace})
			assert.Equal(b, asked, err == nil, "%v: %v", grace, err)
			_ = b.ends(h)
		})
	}
}

// The store is asked again, after the time of a call, until it says what became of a hold that a message calls revoked.
func TestHold_ARevocationIsAskedForUntilTheDeadline(t *testing.T) {
	s := &store{OnAcquire: mint}
	silent := true
	s.OnRenew = func(ctx context.Context, _ int) guardstore.RenewReply {
		if silent {
			<-ctx.Done()
			return guardstore.RenewReply{Err: ctx.Err()}
		}
		return guardstore.RenewReply{Revoked: true}
	}
	inBubble(t, s, func(b *rig) {
		h, holder := b.has(b.comes(func(r *cohort.Request) { r.Claim.TTL = time.Hour })), new(noHolder)
		h.Watch(holder, 0, 0)
		synctest.Wait() // it listens
		s.Notify(guardstore.Notification{Owner: h.Claim.Owner, Revoked: true})
		time.Sleep(2 * timeout)
		require.NoError(b, h.Err())
		s.Change(func() { silent = false })
		time.Sleep(attempt + 200*time.Millisecond)
		require.ErrorIs(b, h.Err(), watchdog.ErrRevoked)
		_ = h.Drop(holder)
		_ = b.ends(h)
	})
}
