package cohort_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/cohort"
	"github.com/redlatch/redlatch/guard/internal/retry"
	"github.com/redlatch/redlatch/guard/internal/watchdog"
)

// After callers of its own process, a caller that does not wait need not ask the store, nor a caller that is to
// stop.
func TestQueue_NoWaitForItsOwnProcess(t *testing.T) {
	s := &store{OnAcquire: mint}
	inBubble(t, s, func(b *rig) {
		h := b.has(b.comes(metadata("who")))
		time.Sleep(time.Minute / 2)
		begun := time.Now()
		c := b.comes(atOnce)
		require.ErrorIs(b, b.fails(c), cohort.ErrBusy)
		assert.Equal(b, begun, time.Now())
		assert.Equal(b, "who", c.waited.Holder)
		assert.True(b, c.waited.Busy)
		stop := make(chan struct{})
		close(stop)
		_, _, err := b.table.Acquire(b.Context(), want(), clock.Now(), stop)
		require.ErrorIs(b, err, cohort.ErrClosed)
		assert.Equal(b, begun, time.Now())
		assert.Zero(b, h.Waiting())
		assert.Zero(b, s.Asks(begun))
		_ = b.ends(h)
	})
}

// The store's word is believed for a moment. Then it is asked once more, and callers that
// do not wait get its answer; no other caller does.
func TestQueue_NoWaitForAnotherProcess(t *testing.T) {
	reply := guardstore.ClaimReply{Status: guardstore.ClaimBusy, Ticket: 7, Ahead: 9, Remaining: time.Minute, Holder: "other"}
	for _, kind := range []func(*cohort.Request){one, func(*cohort.Request) {}} {
		noWaitForAnotherProcess(t, &store{OnAcquire: says(reply)}, kind)
	}
}

func noWaitForAnotherProcess(t *testing.T, s *store, kind func(*cohort.Request)) {
	t.Helper()
	inBubble(t, s, func(b *rig) {
		waits, stays := b.comes(kind), b.comes(kind)
		begun := time.Now()
		time.Sleep(50 * time.Millisecond)
		c := b.comes(kind, atOnce)
		require.ErrorIs(b, b.fails(c), cohort.ErrBusy)
		assert.Zero(b, s.Asks(begun))
		time.Sleep(150 * time.Millisecond)
		c = b.comes(kind, atOnce)
		require.ErrorIs(b, b.fails(c), cohort.ErrBusy)
		assert.Equal(b, "other", c.waited.Holder)
		assert.Equal(b, 1, s.Asks(begun))
		assert.Equal(b, begun.Add(200*time.Millisecond), time.Now())
		b.waits(waits)
		b.waits(stays)
		b.leaves(waits)
		b.waits(stays)
		c = b.comes(kind, atOnce)
		require.ErrorIs(b, b.fails(c), cohort.ErrBusy)
		assert.Equal(b, "other", c.waited.Holder)
		assert.Equal(b, 1, s.Asks(begun), "its answer counts after a caller left, too")
		time.Sleep(200 * time.Millisecond)
		begun = time.Now()
		require.ErrorIs(b, b.fails(b.comes(kind, atOnce)), cohort.ErrBusy)
		assert.Equal(b, begun, time.Now(), "also after a caller left")
		b.leaves(stays)
	})
}

// A message overtakes the reply that says busy, or messages were lost meanwhile: the claim asks as soon as it waits.
func TestQueue_AMessageThatOvertakesItsReply(t *testing.T) {
	for name, notify := range map[string]func(s *store, owner string){
		"a message": func(s *store, owner string) { s.Notify(guardstore.Notification{Owner: owner}) },
		"an interruption": func(s *store, _ string) {
			s.Notify(guardstore.Notification{Err: errUnanswered})
			s.Notify(guardstore.Notification{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{}
			s.OnAcquire = func(_ context.Context, n int, c guardstore.Claim) (guardstore.ClaimReply, error) {
				if n == 1 {
					notify(s, c.Owner)
					return busy(7, 5, time.Minute)
				}
				return held(firstMint)
			}
			inBubble(t, s, func(b *rig) {
				begun := time.Now()
				h := b.has(b.comes())
				assert.Equal(b, begun, time.Now())
				_ = b.ends(h)
			})
		})
	}
}

// The first call of a process gets a free key at once, where no messages flow, too. A claim that has to wait opens
// the subscription, and asks again at once when messages flow.
func TestQueue_AFreeKeyNeedsNoSubscription(t *testing.T) {
	s := &store{Mute: true, OnAcquire: inTurn(mint, queued(9, time.Hour))}
	unsubscribed(t, s, func(b *rig) {
		begun := time.Now()
		h := b.has(b.comes())
		assert.Equal(b, begun, time.Now())
		assert.Nil(b, s.Listener)
		waits := b.comes(waiting(time.Hour), key("other"))
		require.NotNil(b, s.Listener)
		b.claimed(2)
		s.Notify(guardstore.Notification{})
		claims := b.claimed(3)
		assert.Equal(b, begun, time.Now())
		assert.True(b, claims[1].Unsubscribed)
		assert.False(b, claims[2].Unsubscribed)
		b.leaves(waits)
		_ = b.ends(h)
	})
}

// The subscription breaks, and comes back: each time, holds are renewed at once. The first subscription is no break.
func TestNotifier_AnInterruptionRenewsHolds(t *testing.T) {
	s := &store{OnAcquire: mint}
	unsubscribed(t, s, func(b *rig) {
		h := b.has(b.comes())
		h.Watch(new(noHolder), 0, 0)
		renewals := func() int {
			synctest.Wait()
			return len(s.Renewals)
		}
		assert.Zero(b, renewals())
		for n, now := range []guardstore.Notification{{Err: errUnanswered}, {}} {
			s.Notify(now)
			s.Notify(now)
			assert.Equal(b, n+1, renewals())
			time.Sleep(1100 * time.Millisecond)
			assert.Equal(b, n+1, renewals())
		}
		_ = b.ends(h)
	})
}

// A command that fails has holds renewed at once.
func TestQueue_AFailedCommandRenewsHolds(t *testing.T) {
	s := &store{OnAcquire: inTurn(mint, fails(errUnanswered), mint)}
	inBubble(t, s, func(b *rig) {
		h := b.has(b.comes())
		h.Watch(new(noHolder), 0, 0)
		other := b.comes(key("other"))
		<-other.done
		assert.Len(b, s.Renewals, 1)
		_ = b.ends(b.has(other))
		_ = b.ends(h)
	})
}

// Each command that fails is reported with the name of its lock, also those that no caller waits for.
func TestQueue_FailuresNameTheLock(t *testing.T) {
	named := retry.Label{Name: "name", Key: "k"}
	failed := make(chan string, 10)
	fail := fails(errUnanswered)
	s := &store{OnAcquire: inTurn(fail, queued(0, time.Minute), fail, mint)}
	s.OnRenew = func(_ context.Context, n int) guardstore.RenewReply {
		return guardstore.RenewReply{Held: true, Err: []error{errUnanswered, nil}[min(n, 2)-1]}
	}
	s.OnRelease = func(_ context.Context, n int, _ guardstore.Release) (guardstore.ReleaseReply, error) {
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, []error{errUnanswered, errUnanswered, nil}[min(n, 3)-1]
	}
	inBubble(t, s, func(b *rig) {
		name := func(r *cohort.Request) { r.Label = named }
		c := b.comes(name)
		time.Sleep(attempt / 2)
		b.wakes(0)
		time.Sleep(attempt / 2)
		h := b.has(c)
		require.NoError(b, h.Check(b.Context(), "check", cohort.Patience{Most: timeout}))
		s.OnAcquire = queued(0, time.Minute)
		other := b.comes(name)
		h.Abandon(b.Context())
		b.waits(other) // its claim is in the queue
		b.leaves(other)
		synctest.Wait()
		_ = b.ends(h)
		time.Sleep(attempt)
		ops := []string{"acquire", "acquire", "check", "release", "release"}
		require.Len(b, failed, len(ops))
		for _, op := range ops {
			assert.Equal(b, op, <-failed)
		}
	}, func(c *cohort.Config) {
		c.Calls.OnFailure = func(_ context.Context, op string, label retry.Label, _ error) {
			assert.Equal(t, named, label, op)
			failed <- op
		}
	})
}

// That messages do not flow is reported once: claims ask more often then, each second, and no more.
func TestQueue_AnInterruptionIsReportedOnce(t *testing.T) {
	s := &store{OnAcquire: queued(9, time.Hour)}
	inBubble(t, s, func(b *rig) {
		c := b.comes(waiting(time.Hour))
		assert.True(b, s.Listener.Waiting())
		s.Notify(guardstore.Notification{Err: errUnanswered})
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		begun := time.Now()
		for range 3 {
			s.Notify(guardstore.Notification{Err: errUnanswered})
			time.Sleep(300 * time.Millisecond)
			synctest.Wait()
		}
		assert.LessOrEqual(b, s.Asks(begun), 1)
		b.leaves(c)
		synctest.Wait()
		assert.False(b, s.Listener.Waiting())
	})
}

// A message says that a hold was revoked: the store is asked about that hold, and about no other. If the store does not
// have the hold, it was revoked: a store that is full cannot note that. Neither a message nor a refusal ends a hold.
func TestQueue_ARevocationIsForItsGrant(t *testing.T) {
	for name, test := range map[string]struct {
		reply guardstore.RenewReply
		want  error
	}{
		"held":    {guardstore.RenewReply{Held: true}, nil},
		"gone":    {guardstore.RenewReply{}, watchdog.ErrRevoked},
		"refused": {guardstore.RenewReply{Err: &guardstore.RefusedError{Err: errUnanswered}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &store{OnAcquire: mint, OnRenew: renews(test.reply)}, func(b *rig) {
				h := b.has(b.comes())
				h.Watch(new(noHolder), 0, 0)
				b.Notify(guardstore.Notification{Owner: "me-other", Revoked: true})
				assert.Empty(b, b.Checks())
				b.Notify(guardstore.Notification{Owner: h.Claim.Owner, Revoked: true})
				require.Len(b, b.Checks(), 1)
				assert.Equal(b, h.Claim.Owner, b.Checks()[0].Owner)
				assert.Equal(b, test.want, h.Drop(nil))
				_ = b.ends(h)
			})
		})
	}
}

// It is known that Redis does not answer: a caller that can work without a lock sends nothing, unless its own
// process has the key.
func TestQueue_OutageSendsNothing(t *testing.T) {
	s := &store{OnAcquire: mint}
	inBubble(t, s, func(b *rig) {
		open := func(r *cohort.Request) { r.Down = errUnanswered }
		require.ErrorIs(b, b.fails(b.comes(open)), errUnanswered)
		claims, _ := b.Sent()
		assert.Empty(b, claims)
		other := b.has(b.comes()) // asks all the same
		c := b.comes(open)
		b.waits(c)
		_ = b.ends(other)
		_ = b.ends(b.has(c))
		s.OnAcquire = unanswered // nothing is known of the lock yet
		first, begun := b.comes(), time.Now()
		require.Equal(b, errUnanswered, b.fails(b.comes(open)))
		assert.Equal(b, begun, time.Now())
		b.leaves(first)
	})
}

// A record is the answer to all that wait, of one command.
func TestQueue_ARecordIsForAllThatWait(t *testing.T) {
	record := &guardstore.Record{State: guardstore.RecordDone}
	inBubble(t, &store{OnAcquire: slow(attempt/2, says(guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: record}))}, func(b *rig) {
		for _, c := range []*caller{b.comes(withRecord), b.comes(withRecord), b.comes(withRecord)} {
			var recorded *cohort.RecordedError
			require.ErrorAs(b, b.fails(c), &recorded)
			assert.Same(b, record, recorded.Record)
			assert.NotEmpty(b, recorded.Error())
		}
		b.claimed(1)
	})
}

// The same for a claim that waits. What it says of the lock is not remembered then: the next caller asks.
func TestQueue_TheLastAnswerToAClaimThatWaits(t *testing.T) {
	record := &guardstore.Record{State: guardstore.RecordDone}
	refused := &guardstore.RefusedError{Err: errUnanswered}
	for _, row := range []struct {
		last answer
		want func(err error) bool
	}{
		{
			fails(refused),
			func(err error) bool { return errors.As(err, new(*retry.Error)) },
		},
		{
			says(guardstore.ClaimReply{Status: guardstore.ClaimRecorded, Record: record}),
			func(err error) bool { return errors.As(err, new(*cohort.RecordedError)) },
		},
	} {
		inBubble(t, &store{OnAcquire: inTurn(queued(5, time.Minute), row.last)}, func(b *rig) {
			first, second := b.comes(withRecord), b.comes(withRecord)
			b.claimed(1)
			b.wakes(0)
			for _, err := range []error{b.fails(first), b.fails(second), b.fails(b.comes(withRecord, atOnce))} {
				assert.True(b, row.want(err), err)
			}
			b.claimed(3)
		})
	}
}

// An observer of failures panics: what was sent is released, with a tombstone, and those that wait go on.
func TestQueue_AnObserverThatPanics(t *testing.T) {
	s := &store{}
	s.OnAcquire = func(_ context.Context, n int, _ guardstore.Claim) (guardstore.ClaimReply, error) {
		if n == 1 {
			time.Sleep(attempt / 2)
			return guardstore.ClaimReply{}, errUnanswered
		}
		return held(firstMint)
	}
	inBubble(t, s, func(b *rig) {
		go func() {
			defer func() { assert.Equal(b, "observed", recover()) }()
			_, _, _ = b.table.Acquire(b.Context(), want(), clock.Now(), nil)
		}()
		synctest.Wait()
		next := b.comes()
		<-next.done
		require.NoError(b, next.err)
		claims, _ := b.Sent()
		assert.Equal(b, claims[0].Owner, next.hold.Claim.Owner, "the claim stays")
		_ = b.ends(next.hold)
		_, releases := b.Sent()
		assert.True(b, releases[0].Tombstone)
	}, func(c *cohort.Config) {
		c.Calls = &retry.Policy{Timeout: timeout, AttemptTimeout: attempt, OnFailure: func(context.Context, string, retry.Label, error) {
			panic("observed")
		}}
	})
}

// A call that waited leaves nothing to the next one.
func TestQueue_CallsKeepNothing(t *testing.T) {
	s := &store{}
	s.OnAcquire = func(_ context.Context, n int, _ guardstore.Claim) (guardstore.ClaimReply, error) {
		if n%2 == 1 {
			return busy(0, 0, time.Minute)
		}
		return held(uint64(n) * firstMint)
	}
	inBubble(t, s, func(b *rig) {
		for range 10 {
			_, waited, err := b.table.Acquire(b.Context(), want(atOnce), clock.Now(), nil)
			require.ErrorIs(b, err, cohort.ErrBusy)
			require.True(b, waited.Busy)
			h, waited, err := b.table.Acquire(b.Context(), want(atOnce), clock.Now(), nil)
			require.NoError(b, err)
			require.Zero(b, waited)
			_ = b.ends(h)
		}
		b.released(10) // nothing for a claim that was refused, and was in no queue
	})
}

// Once the Table is closed, a call that would have to wait ends, and a hold is released by one attempt of
// its caller, which is short.
func TestQueue_CallsAfterTheEnd(t *testing.T) {
	for _, answered := range []bool{true, false} {
		s := &store{OnAcquire: mint}
		s.OnRelease = func(ctx context.Context, _ int, _ guardstore.Release) (guardstore.ReleaseReply, error) {
			if !answered {
				<-ctx.Done()
			}
			return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, ctx.Err()
		}
		inBubble(t, s, func(b *rig) {
			h := b.has(b.comes(key("held")))
			b.close()
			ctx, cancel := context.WithCancel(b.Context())
			cancel()
			begun := time.Now()
			_, err := h.Release(ctx, cohort.Patience{Most: timeout})
			require.ErrorIs(b, err, retry.ErrNoAnswer)
			assert.Equal(b, !answered, time.Since(begun) == 50*time.Millisecond)
			b.released(1)
			s.OnAcquire = queued(3, time.Minute)
			require.ErrorIs(b, b.fails(b.comes()), cohort.ErrClosed)
		})
	}
}

// Releases that are not answered are repeated for the ttl, but not after Abort.
func TestQueue_AbortEndsReleases(t *testing.T) {
	s := &store{OnAcquire: inTurn(mint, queued(0, time.Minute))}
	s.OnRelease = func(context.Context, int, guardstore.Release) (guardstore.ReleaseReply, error) {
		return guardstore.ReleaseReply{}, errUnanswered
	}
	inBubble(t, s, func(b *rig) {
		long := func(r *cohort.Request) { r.Claim.TTL = time.Hour }
		h := b.has(b.comes(long))
		b.leaves(b.comes(long, key("other")))
		require.Error(b, b.ends(h))
		begun := time.Now()
		b.close()
		assert.LessOrEqual(b, time.Since(begun), time.Minute+time.Second)
	})
}

// What a call gets whose wait ends, when the store's last answer is older than a moment: it asks once more.
func TestQueue_AWaitThatEnds(t *testing.T) {
	const wait = time.Second / 2
	for name, test := range map[string]struct {
		again answer
		takes time.Duration
		check func(b *rig, c *caller)
	}{
		"busy": {
			says(guardstore.ClaimReply{Status: guardstore.ClaimBusy, Remaining: time.Minute, Holder: "the next holder"}), wait,
			func(b *rig, c *caller) {
				require.Equal(b, cohort.ErrBusy, c.err)
				assert.Equal(b, "the next holder", c.waited.Holder)
			},
		},
		"free": {
			mint, wait,
			func(b *rig, c *caller) { _ = b.ends(b.has(c)) },
		},
		"silent": {
			unanswered, wait + timeout,
			func(b *rig, c *caller) {
				var failure *retry.Error
				require.ErrorAs(b, c.err, &failure)
				assert.Equal(b, "acquire", failure.Op)
				assert.Equal(b, "k", failure.Key)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &store{OnAcquire: inTurn(queued(5, time.Minute), test.again)}, func(b *rig) {
				patient, begun := b.comes(waiting(time.Hour)), time.Now()
				c := b.comes(waiting(wait))
				patient.cancel() // the claim serves both
				<-c.done
				assert.Equal(b, test.takes, time.Since(begun))
				test.check(b, c)
				b.left(patient)
			})
		})
	}
}

// The wait ends while this process gives the key back: the caller waits for the time of a call for an answer.
func TestQueue_AWaitThatEndsWhileAGrantIsReleased(t *testing.T) {
	inBubble(t, &store{OnAcquire: inTurn(mint, unanswered), OnRelease: releasesIn(attempt * 3 / 4)}, func(b *rig) {
		h, next := b.has(b.comes()), b.comes(waiting(handover+attempt/2))
		time.Sleep(handover)
		begun := time.Now()
		go func() { _, _ = h.Release(b.Context(), cohort.Patience{Most: timeout}) }()
		require.Equal(b, &retry.Error{Op: "acquire", Key: "k", Err: retry.ErrNoAnswer}, b.fails(next))
		assert.Equal(b, attempt/2+timeout, time.Since(begun))
		time.Sleep(attempt)
	})
}

// A store's error counts, whatever its reply says.
func TestQueue_AReplyWithAnErrorIsNone(t *testing.T) {
	refused := func(context.Context, int, guardstore.Claim) (guardstore.ClaimReply, error) {
		r, _ := held(firstMint)
		return r, &guardstore.RefusedError{Err: errUnanswered}
	}
	for _, answers := range [][]answer{{refused}, {queued(0, 0), refused}} {
		inBubble(t, &store{OnAcquire: inTurn(answers...)}, func(b *rig) {
			var failure *retry.Error
			require.ErrorAs(b, b.fails(b.comes()), &failure)
		})
	}
}

// A caller that does not wait gets no answer in the time of a call: it leaves, while the first caller's claim is
// under way for longer.
func TestQueue_ANoWaitCallerWithoutAnAnswer(t *testing.T) {
	inBubble(t, &store{OnAcquire: unanswered}, func(b *rig) {
		first, begun := b.comes(), time.Now()
		_, _, err := b.table.Acquire(b.Context(), want(atOnce), clock.Now().Add(-timeout/2), nil)
		assert.Equal(b, &retry.Error{Op: "acquire", Key: "k", Err: retry.ErrNoAnswer}, err)
		assert.Equal(b, timeout/2, time.Since(begun))
		b.leaves(first)
	})
}

// A caller that does not wait opens no subscription.
func TestQueue_ANoWaitCallerNeedsNoSubscription(t *testing.T) {
	s := &store{OnAcquire: queued(0, time.Minute)}
	unsubscribed(t, s, func(b *rig) {
		require.ErrorIs(b, b.fails(b.comes(atOnce)), cohort.ErrBusy)
		assert.Nil(b, s.Listener)
	})
}

// A caller that has to stop gets that error, not that the lock is busy, or the store silent.
func TestQueue_ACallerThatIsToStop(t *testing.T) {
	for name, acquire := range map[string]answer{
		"in the queue": queued(5, time.Minute),
		"as it asks":   fails(errUnanswered),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &store{OnAcquire: acquire}, func(b *rig) {
				stop := make(chan struct{})
				time.AfterFunc(time.Millisecond, func() { close(stop) })
				_, _, err := b.table.Acquire(b.Context(), want(waiting(50*time.Millisecond)), clock.Now(), stop)
				require.Equal(b, cohort.ErrClosed, err)
			})
		})
	}
}
