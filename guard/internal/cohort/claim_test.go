package cohort_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// trusted is until when a grant is certain that was asked for at sent.
func trusted(sent clock.Instant) clock.Instant { return sent.Add(ttl - ttl/10 - 2*time.Millisecond) }

// A message has its claim ask at once, with the place that it has. A claim that learns that it is one of the first two asks
// as they do from then on.
func TestClaim_AMessageHasItAsk(t *testing.T) {
	s := &store{}
	s.OnAcquire = func(_ context.Context, n int, _ guardstore.Claim) (guardstore.ClaimReply, error) {
		if n < 4 {
			return busy(70+uint64(n), 9, time.Hour)
		}
		return held(firstMint)
	}
	inBubble(t, s, func(b *rig) {
		c := b.comes()
		begun := time.Now()
		owner := b.claimed(1)[0].Owner
		b.wakes(0)
		b.claimed(2)
		s.Notify(guardstore.Notification{Owner: "another"})
		s.Notify(guardstore.Notification{Owner: owner, First: true})
		b.claimed(2)
		assert.Equal(b, begun, time.Now())
		time.Sleep(800 * time.Millisecond)
		b.claimed(2)
		time.Sleep(300 * time.Millisecond)
		b.claimed(3)
		b.wakes(0)
		h := b.has(c)
		for i, want := range []uint64{0, 71, 72, 73} {
			claim := b.claimed(4)[i]
			assert.Equal(b, want, claim.Ticket)
			assert.True(b, claim.Queue)
			assert.Equal(b, owner, claim.Owner)
		}
		_ = b.ends(h)
	})
}

// Messages that come while a claim asks have it ask once more.
func TestClaim_MessagesWhileItAsks(t *testing.T) {
	waits := queued(0, time.Minute)
	inBubble(t, &store{OnAcquire: inTurn(waits, slow(attempt/2, waits), mint)}, func(b *rig) {
		c := b.comes()
		begun := time.Now()
		b.wakes(0)
		b.claimed(2)
		b.wakes(0)
		b.wakes(0)
		assert.Equal(b, begun, time.Now(), "no message waits for a claim")
		<-c.done
		assert.Equal(b, attempt/2, time.Since(begun))
		b.claimed(3)
		_ = b.ends(b.has(c))
	})
}

// How often a claim asks by itself, in a minute without a message.
func TestClaim_HowOftenAClaimAsks(t *testing.T) {
	for name, test := range map[string]struct {
		inFront     int
		silent      bool
		least, most int
	}{
		"at the head":             {inFront: 0, least: 60, most: 76},
		"behind the head":         {inFront: 1, least: 60, most: 76},
		"near the head":           {inFront: 2, least: 14, most: 21},
		"the last near the head":  {inFront: 7, least: 14, most: 21},
		"further back":            {inFront: 8, least: 4, most: 7},
		"where no messages flow":  {inFront: 8, silent: true, least: 59, most: 61},
		"the head, without those": {inFront: 0, silent: true, least: 60, most: 76},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{Silent: test.silent}
			begun := time.Time{}
			s.OnAcquire = func(context.Context, int, guardstore.Claim) (guardstore.ClaimReply, error) {
				return busy(7, test.inFront, time.Hour-time.Since(begun)+time.Minute)
			}
			var awake atomic.Int64
			inBubble(t, s, func(b *rig) {
				c := b.comes(waiting(time.Hour))
				s.Change(func() { begun = time.Now() })
				awake.Store(0)
				time.Sleep(time.Minute)
				synctest.Wait()
				n := s.Asks(begun)
				assert.EqualValues(b, n, awake.Load())
				claims, _ := b.Sent()
				for _, claim := range claims {
					assert.Equal(b, test.silent, claim.Unsubscribed)
				}
				assert.GreaterOrEqual(b, n, test.least)
				assert.LessOrEqual(b, n, test.most)
				b.leaves(c)
			}, func(c *cohort.Config) { c.Awake = func(clock.Instant) { awake.Add(1) } })
		})
	}
}

// The head asks as soon as the holder's ttl has passed, and not a second later.
func TestClaim_TheHeadAsksWhenTheHolderShouldBeGone(t *testing.T) {
	for _, left := range []time.Duration{0, 3 * time.Millisecond, 400 * time.Millisecond} {
		inBubble(t, &store{OnAcquire: inTurn(queued(0, left), mint)}, func(b *rig) {
			begun := time.Now()
			c := b.comes()
			<-c.done
			assert.GreaterOrEqual(b, time.Since(begun), left+5*time.Millisecond)
			assert.LessOrEqual(b, time.Since(begun), left+10*time.Millisecond)
			_ = b.ends(b.has(c))
		})
	}
}

// Where no live claim is seen at the head, one at the back asks when the holder should be gone, again and again, and
// does not rely on a long ttl.
func TestClaim_AtTheBackWithoutALiveHead(t *testing.T) {
	for left, least := range map[time.Duration]int{13 * time.Second: 2, time.Hour: 1} {
		ends := time.Time{}
		s := &store{OnAcquire: func(context.Context, int, guardstore.Claim) (guardstore.ClaimReply, error) {
			return busy(7, 9, time.Until(ends))
		}}
		inBubble(t, s, func(b *rig) {
			begun := time.Now()
			ends = begun.Add(left)
			c := b.comes(waiting(time.Hour))
			time.Sleep(14*time.Second + time.Millisecond)
			assert.GreaterOrEqual(b, s.Asks(begun), least)
			b.leaves(c)
		})
	}
}

// A claim at the back relies on the head when it has seen the holder's expiry move by more than the time on the wire may
// differ. A message changes nothing of that.
func TestClaim_AtTheBackWithAHolderThatRenews(t *testing.T) {
	const left = 4 * time.Second
	for moved, asks := range map[time.Duration]int{50 * time.Millisecond: 1, 50*time.Millisecond + 1: 0} {
		s := &store{OnAcquire: inTurn(queued(9, left), queued(9, left+moved))}
		inBubble(t, s, func(b *rig) {
			c := b.comes(waiting(time.Hour))
			b.wakes(0)
			b.claimed(2)
			time.Sleep(left + 1500*time.Millisecond)
			b.claimed(2 + asks)
			b.leaves(c)
		})
	}
}

// Messages may have been lost, maybe with their server: a claim at the back asks soon, and
// again when the holder should be gone, as there may be no claim in front that does. Once it is
// seen that the holder renews, a live process is there.
func TestClaim_AtTheBackAfterMessagesWereLost(t *testing.T) {
	s := &store{}
	ends := time.Time{}
	renewed := false
	s.OnAcquire = func(context.Context, int, guardstore.Claim) (guardstore.ClaimReply, error) {
		if renewed {
			ends = time.Now().Add(4 * time.Second)
		}
		return busy(7, 9, time.Until(ends))
	}
	inBubble(t, s, func(b *rig) {
		s.Change(func() { ends, renewed = time.Now().Add(4*time.Second), true })
		c := b.comes(waiting(time.Hour))
		time.Sleep(time.Minute)
		begun := time.Now()
		time.Sleep(time.Minute)
		assert.LessOrEqual(b, s.Asks(begun), 7, "the holder lives")

		begun = time.Now()
		s.Change(func() { ends, renewed = begun.Add(4*time.Second), false })
		s.Notify(guardstore.Notification{Err: errUnanswered}) // and again, soon
		s.Notify(guardstore.Notification{})
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Equal(b, 1, s.Asks(begun))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.GreaterOrEqual(b, s.Asks(begun), 2, "when the holder should be gone")
		b.leaves(c)
	})
}

// A grant that took longer than it lasts is of no use: it is given back, and claimed anew under another owner, by the first
// caller and by a claim that waits.
func TestClaim_AGrantThatComesTooLate(t *testing.T) {
	late := slow(trusted(0).Sub(0), mint)
	for waits, answers := range [][]answer{{late, late, late, mint}, {queued(0, 0), late, late, late, mint}} {
		inBubble(t, &store{OnAcquire: inTurn(answers...), OnRelease: releasesIn(time.Millisecond)}, func(b *rig) {
			c := b.comes()
			<-c.done
			h := b.has(c)
			claims := b.claimed(len(answers))
			for i, release := range b.released(3) {
				assert.Equal(b, claims[i+waits].Owner, release.Owner)
				assert.False(b, release.Tombstone, "each attempt was answered")
				assert.NotEqual(b, release.Owner, h.Claim.Owner)
			}
			assert.Greater(b, h.Deadline(), clock.Now())
			_ = b.ends(h)
		}, patient)
	}
}

// The first in the queue stays first when a grant comes too late.
func TestClaim_AGrantThatComesTooLateKeepsTheOrder(t *testing.T) {
	late := slow(trusted(0).Sub(0), mint)
	inBubble(t, &store{OnAcquire: inTurn(queued(0, 0), late, mint)}, func(b *rig) {
		first, second := b.comes(), b.comes()
		<-first.done
		b.waits(second)
		_ = b.ends(b.has(first))
		<-second.done
		_ = b.ends(b.has(second))
	}, patient)
}

// A reply that takes long makes no grant last longer: it counts from the sending of the attempt that was answered.
func TestClaim_ALongWayBackDoesNotCount(t *testing.T) {
	const way = 700 * time.Millisecond
	for name, first := range map[string]answer{"first": nil, "the second attempt": unanswered, "a claim that waited": queued(0, 0)} {
		t.Run(name, func(t *testing.T) {
			answers := []answer{first, slow(way, mint)}
			if first == nil {
				answers = answers[1:]
			}
			inBubble(t, &store{OnAcquire: inTurn(answers...)}, func(b *rig) {
				c := b.comes()
				<-c.done
				require.NoError(b, c.err)
				assert.Equal(b, clock.Now(), c.hold.Begun)
				assert.Equal(b, trusted(clock.Now().Add(-way)), c.hold.Deadline())
				inDoubt := name == "the second attempt" // the first may yet arrive
				assert.Equal(b, inDoubt, c.hold.Tombstone)
				_ = b.ends(c.hold)
				assert.Equal(b, inDoubt, b.released(1)[0].Tombstone)
			})
		})
	}
}

// A claim has ended for the store, as its owner was released there: it starts over under another, for which messages are.
func TestClaim_AClaimThatIsFinishedGoesOn(t *testing.T) {
	finished := says(guardstore.ClaimReply{Status: guardstore.ClaimFinished})
	for name, first := range map[string]answer{"the first": finished, "a claim that waits": queued(0, 0)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &store{OnAcquire: inTurn(first, finished, queued(5, time.Minute), mint)}, func(b *rig) {
				c := b.comes()
				time.Sleep(2 * time.Second)
				claims := b.claimed(3)
				assert.NotEqual(b, claims[0].Owner, claims[2].Owner)
				assert.Zero(b, claims[2].Ticket)
				release := b.released(1)[0] // it may hold, and be revoked
				assert.Equal(b, claims[0].Owner, release.Owner)
				assert.True(b, release.Tombstone)
				b.wakes(2)
				assert.Equal(b, claims[2].Owner, b.has(c).Claim.Owner)
				_ = b.ends(c.hold)
			})
		})
	}
}

// A claim that no caller wants any more: which caller leaves when, and what the store gets.
func TestClaim_LeavesNothing(t *testing.T) {
	t.Run("the first caller leaves with its command on the wire", func(t *testing.T) {
		inBubble(t, &store{OnAcquire: unanswered}, func(b *rig) {
			c := b.comes()
			c.cancel()
			require.ErrorIs(b, b.fails(c), cohort.ErrEnded)
			releases := b.released(1)
			claims, _ := b.Sent()
			assert.Equal(b, claims[0].Owner, releases[0].Owner)
			assert.True(b, releases[0].Tombstone)
		})
	})
	t.Run("with a ttl that is shorter than a call may take", func(t *testing.T) {
		s := &store{OnAcquire: unanswered, OnRelease: func(ctx context.Context, _ int, _ guardstore.Release) (guardstore.ReleaseReply, error) {
			<-ctx.Done()
			return guardstore.ReleaseReply{}, ctx.Err()
		}}
		inBubble(t, s, func(b *rig) {
			b.leaves(b.comes(func(r *cohort.Request) { r.Claim.TTL = timeout / 4 }))
			time.Sleep(timeout)
			_, releases := b.Sent()
			assert.Greater(b, len(releases), 1, "it may arrive late")
		})
	})
	// A grant that comes too late for this process may be one for the store.
	for _, takes := range []time.Duration{attempt / 2, trusted(0).Sub(0)} {
		t.Run("all leave with a grant on the wire", func(t *testing.T) {
			for range 20 { // it stops, or asks once more
				inBubble(t, &store{OnAcquire: inTurn(mint, slow(takes, mint), mint)}, func(b *rig) {
					h := b.has(b.comes())
					c := b.comes()
					h.Abandon(b.Context())
					b.waits(c)
					b.leaves(c)
					time.Sleep(ttl)
					claims, releases := b.Sent()
					require.Len(b, releases, len(claims)-1, "all but the first")
					owners := map[string]bool{}
					for _, r := range releases {
						owners[r.Owner] = true
						assert.False(b, r.Tombstone, "each attempt was answered")
					}
					assert.True(b, owners[claims[1].Owner])
				}, patient)
			}
		})
	}
	t.Run("its first attempt may yet arrive", func(t *testing.T) {
		inBubble(t, &store{OnAcquire: inTurn(unanswered, queued(0, time.Minute))}, func(b *rig) {
			c := b.comes()
			time.Sleep(2 * attempt)
			b.leaves(c)
			assert.True(b, b.released(1)[0].Tombstone)
		})
	})
	t.Run("the first caller leaves, and another waits", func(t *testing.T) {
		inBubble(t, &store{OnAcquire: inTurn(unanswered, mint)}, func(b *rig) {
			first, second := b.comes(), b.comes()
			b.leaves(first)
			_ = b.ends(b.has(second)) // at once
		})
	})
	t.Run("it leaves while its claim asks", func(t *testing.T) {
		inBubble(t, &store{OnAcquire: inTurn(queued(0, time.Minute), unanswered)}, func(b *rig) {
			c := b.comes()
			b.wakes(0)
			b.waits(c)
			b.leaves(c)
			time.Sleep(2 * attempt)
			assert.True(b, b.released(1)[0].Tombstone)
		})
	})
	t.Run("it is refused, and nothing was sent before", func(t *testing.T) {
		refused := fails(&guardstore.RefusedError{Err: errUnanswered})
		inBubble(t, &store{OnAcquire: inTurn(mint, refused)}, func(b *rig) {
			h, c := b.has(b.comes()), b.comes()
			h.Abandon(b.Context())
			require.Error(b, b.fails(c))
			b.released(0)
			_ = b.ends(h)
		})
	})
	t.Run("it leaves twice, of which one counts", func(t *testing.T) {
		finished := slow(attempt/2, says(guardstore.ClaimReply{Status: guardstore.ClaimFinished}))
		inBubble(t, &store{OnAcquire: inTurn(mint, queued(0, time.Minute), finished, queued(0, time.Minute))}, func(b *rig) {
			other, c := b.has(b.comes(one)), b.comes(one)
			b.wakes(1)
			b.waits(c)
			b.leaves(c)
			time.Sleep(attempt)
			claims, _ := b.Sent()
			next, last := b.comes(one), b.comes(one)
			b.claimed(len(claims) + 1) // there is room for one
			b.leaves(next)
			b.leaves(last)
			_ = b.ends(other)
		})
	})
	t.Run("a limit goes with it", func(t *testing.T) {
		inBubble(t, &store{OnAcquire: queued(0, time.Minute)}, func(b *rig) {
			c := b.comes(func(r *cohort.Request) { r.Claim.Limit = 3 })
			b.leaves(c)
			releases := b.released(1)
			assert.EqualValues(b, 3, releases[0].Limit)
			assert.Equal(b, ttl, releases[0].TTL)
			assert.Equal(b, "k", releases[0].Key)
			assert.False(b, releases[0].Tombstone)
		})
	})
}

// A caller waits for a claim that is not answered: no reply said that the lock is busy. All that wait behind the first
// learn that with it: another claim would take as long again.
func TestClaim_AfterASilentClaim(t *testing.T) {
	inBubble(t, &store{OnAcquire: unanswered}, func(b *rig) {
		begun, first, second := time.Now(), b.comes(), b.comes()
		impatient := b.comes(waiting(timeout / 4))
		at := b.comes(atOnce)
		for _, c := range []*caller{at, impatient, first, second} {
			var failure *retry.Error
			require.ErrorAs(b, b.fails(c), &failure)
			assert.Equal(b, "k", failure.Key)
			assert.False(b, c.waited.Busy)
			assert.NotErrorIs(b, c.err, cohort.ErrBusy)
		}
		assert.Equal(b, timeout, time.Since(begun))
	})
}

// Dismiss ends the wait of those in the queue whose stop is closed, and of no other caller.
func TestClaim_DismissEndsTheWaitOfCallersThatStop(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
		h := b.has(b.comes())
		stop, result := make(chan struct{}), make(chan error, 1)
		go func() {
			_, _, err := b.table.Acquire(b.Context(), want(), clock.Now(), stop)
			result <- err
		}()
		synctest.Wait()
		other := b.comes()
		b.table.Dismiss()
		synctest.Wait()
		assert.Empty(b, result)
		close(stop)
		b.table.Dismiss()
		require.ErrorIs(b, <-result, cohort.ErrClosed)
		b.waits(other)
		assert.False(b, task.IsClosed(other.done))
		time.Sleep(time.Millisecond)
		_ = b.ends(h)
		_ = b.ends(b.has(other))
	})
}

// A grant reaches a caller that leaves at this moment: it is given back, whichever was faster.
func TestClaim_ALeavingCallerKeepsNothing(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
		for range 50 {
			h, c := b.has(b.comes()), b.comes()
			time.Sleep(time.Millisecond)
			c.cancel() // most times, it does not know of it when the lock is handed over
			_ = b.ends(h)
			if <-c.done; c.err == nil {
				_ = b.ends(c.hold)
			}
		}
		b.released(50)
	})
}
