package cohort_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

func one(r *cohort.Request) { r.Claim.Limit = 2 } // of two permits

func reader(r *cohort.Request) { r.Claim.Limit = guardstore.Unlimited }

// Two callers of one process send their own claims, and both have to wait. Whichever is answered last, and whichever is
// granted, the first caller is served first.
func TestPool_FirstComeFirstServed(t *testing.T) {
	for _, second := range []time.Duration{0, attempt * 3 / 4} {
		waits := queued(5, time.Minute)
		inBubble(t, &store{OnAcquire: inTurn(slow(attempt/2, waits), slow(second, waits), mint)}, func(b *rig) {
			first := b.comes(one)
			time.Sleep(time.Millisecond)
			last := b.comes(one)
			time.Sleep(attempt)
			b.waits(first)
			b.waits(last)
			b.claimed(2)
			b.wakes(1)
			h := b.has(first)
			b.waits(last)
			_ = b.ends(h)
			_ = b.ends(b.has(last))
		})
	}
}

// A caller that does not wait has no claim of its own. When the permit that it asked for goes to the caller in front,
// it gets a claim.
func TestPool_AnotherPermitForANoWaitCaller(t *testing.T) {
	inBubble(t, &store{OnAcquire: inTurn(queued(5, time.Minute), mint)}, func(b *rig) {
		first := b.comes(one)
		time.Sleep(150 * time.Millisecond)
		second := b.comes(one, atOnce)
		h := b.has(first)
		_ = b.ends(b.has(second))
		_ = b.ends(h)
	})
}

// The store said that all permits are taken, and this process gives one back that it may have: a caller that does not wait
// asks.
func TestPool_NoWaitWhileAClaimLeaves(t *testing.T) {
	waits := queued(5, time.Minute)
	inBubble(t, &store{OnAcquire: inTurn(waits, waits, mint), OnRelease: releasesIn(attempt / 2)}, func(b *rig) {
		first, second := b.comes(one), b.comes(one)
		b.leaves(second)
		third := b.comes(one, atOnce)
		<-third.done
		_ = b.ends(b.has(third))
		_ = b.ends(b.has(first))
	})
}

// Both permits may be taken by claims whose answers this process did not wait for: a caller that comes before their releases
// were answered waits for that.
func TestPool_NoClaimBeforeClaimsInDoubtHaveLeft(t *testing.T) {
	inBubble(t, &store{OnAcquire: inTurn(unanswered, unanswered, mint), OnRelease: releasesIn(attempt / 2)}, func(b *rig) {
		for _, c := range []*caller{b.comes(one), b.comes(one)} {
			b.leaves(c)
		}
		third := b.comes(one, atOnce)
		b.claimed(2)
		<-third.done
		_ = b.ends(b.has(third))
	})
}

// All permits were this process's a moment ago. A caller that does not wait asks, although others are in front.
func TestPool_NoWaitAfterReleases(t *testing.T) {
	inBubble(t, &store{OnAcquire: inTurn(mint, mint, slow(attempt/2, mint), mint)}, func(b *rig) {
		first, second, third := b.has(b.comes(one)), b.has(b.comes(one)), b.comes(one)
		time.Sleep(handover)
		_ = b.ends(first)
		_ = b.ends(second)
		last := b.comes(one, atOnce)
		<-last.done
		_ = b.ends(b.has(last))
		_ = b.ends(b.has(third))
	})
}

// A process has no more claims, sent and not answered, than there may be grants, with those that it has.
func TestPool_NoMoreClaimsThanPermits(t *testing.T) {
	inBubble(t, &store{OnAcquire: inTurn(mint, slow(attempt/2, mint), mint)}, func(b *rig) {
		first, second, third := b.comes(one), b.comes(one), b.comes(one)
		b.claimed(2)
		<-second.done
		b.waits(third)
		b.claimed(2)
		_ = b.ends(b.has(second))
		_ = b.ends(b.has(third))
		assert.True(b, third.waited.Queued, "also where the key is not known to be busy")
		_ = b.ends(b.has(first))
	})
}

// A claim is granted whose caller left while it asked. No caller waits: the grant is given back.
// A later caller gets it: any grant may serve any caller.
func TestPool_AGrantThatItsCallerDidNotWaitFor(t *testing.T) {
	for name, comes := range map[string]bool{"no caller waits": false, "a caller came since": true} {
		t.Run(name, func(t *testing.T) {
			waits := queued(0, time.Minute)
			inBubble(t, &store{OnAcquire: inTurn(mint, waits, slow(attempt/2, mint), waits)}, func(b *rig) {
				other := b.has(b.comes(one)) // else it would not be the same cohort
				left := b.comes(one)
				claims, _ := b.Sent()
				b.wakes(1)
				b.waits(left)
				b.leaves(left)
				if comes {
					next := b.comes(one)
					b.waits(next)
					<-next.done
					h := b.has(next)
					assert.Equal(b, claims[1].Owner, h.Claim.Owner)
					_ = b.ends(h)
				} else {
					time.Sleep(attempt)
					releases := b.released(1)
					assert.Equal(b, claims[1].Owner, releases[0].Owner)
				}
				_ = b.ends(other)
			})
		})
	}
}

// A claim that was given up is refused: that is not the answer to a caller that came since.
func TestPool_ARefusalForACallerThatLeft(t *testing.T) {
	refused := slow(attempt/2, fails(&guardstore.RefusedError{Err: errUnanswered}))
	inBubble(t, &store{OnAcquire: inTurn(mint, queued(0, time.Minute), refused, mint)}, func(b *rig) {
		other, left := b.has(b.comes(one)), b.comes(one)
		b.wakes(1)
		b.waits(left)
		b.leaves(left)
		next := b.comes(one)
		<-next.done
		_ = b.ends(b.has(next))
		_ = b.ends(other)
	})
}

// The grant of a claim that was given up serves a caller that has a claim of its own by now. That claim leaves.
func TestPool_AGrantThatComesBeforeTheCallersOwn(t *testing.T) {
	of3 := func(r *cohort.Request) { r.Claim.Limit = 3 }
	waits := queued(0, time.Minute)
	inBubble(t, &store{OnAcquire: inTurn(mint, waits, slow(attempt/2, mint), waits)}, func(b *rig) {
		other, left := b.has(b.comes(of3)), b.comes(of3)
		b.wakes(1)
		b.waits(left)
		b.leaves(left)
		next := b.comes(of3)
		<-next.done
		claims := b.claimed(4)
		h := b.has(next)
		assert.Equal(b, claims[1].Owner, h.Claim.Owner)
		assert.Equal(b, claims[3].Owner, b.released(1)[0].Owner)
		_ = b.ends(h)
		_ = b.ends(other)
	})
}

// Between the end of a reader's work and the release, its grant is revoked, or the window ends. Readers that wait by
// then have claimed the key anew, and are not given the old grant, new as it was when its work ended.
func TestPool_AReadersGrantServesNoLaterReader(t *testing.T) {
	for name, meanwhile := range map[string]func(h *cohort.Hold){
		"revoked": func(h *cohort.Hold) { h.End(watchdog.ErrRevoked) },
		"old":     func(*cohort.Hold) { time.Sleep(handover) },
	} {
		t.Run(name, func(t *testing.T) { aReadersGrantServesNoLaterReader(t, meanwhile) })
	}
}

func aReadersGrantServesNoLaterReader(t *testing.T, meanwhile func(h *cohort.Hold)) {
	t.Helper()
	inBubble(t, &store{OnAcquire: inTurn(mint, slow(attempt/2, mint), mint)}, func(b *rig) {
		old := b.has(b.comes(reader))
		holder := new(noHolder)
		old.Watch(holder, 0, 0)
		require.NoError(b, old.Drop(holder))
		meanwhile(&old)
		first, second := b.comes(reader), b.comes(reader)
		b.waits(second)
		_ = b.ends(old)
		b.waits(second)
		b.released(1) // the old grant
		<-first.done
		h := b.has(first)
		assert.EqualValues(b, 2*firstMint, h.Fence)
		assert.Equal(b, h.Claim.Owner, b.has(second).Claim.Owner)
		_ = b.ends(h)
		_ = b.ends(second.hold)
	})
}

// noHolder ignores what becomes of its grant.
type noHolder struct{ _ byte }

func (noHolder) Renewed(error)     {}
func (noHolder) Cancel(error) bool { return false }
func (noHolder) ReportLoss()       {}

// With a window of 0 each reader counts in the store, also those that come together.
func TestPool_WithoutAWindowEachReaderHasAClaim(t *testing.T) {
	inBubble(t, &store{OnAcquire: inTurn(slow(attempt/2, mint), mint)}, func(b *rig) {
		first := b.comes(reader)
		second := b.has(b.comes(reader))
		<-first.done
		assert.NotEqual(b, b.has(first).Claim.Owner, second.Claim.Owner)
		_ = b.ends(second)
		_ = b.ends(first.hold)
	}, func(c *cohort.Config) { c.Handover = 0 })
}
