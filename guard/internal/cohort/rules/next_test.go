package rules_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/retry"
)

// The tests of this file are about the next claim of a process, which goes with the release of
// the grant before.

// behind has one caller hold the lock for longer than the handover window, and one wait.
func behind(b *bench, then func(release func(), next *caller)) {
	b.Helper()
	h := b.has(b.comes())
	next := b.comes()
	time.Sleep(handover)
	then(func() { b.ends(h) }, next)
}

// The message that the next claim is granted the lock may be faster than the reply.
func TestTheNextClaimIsKnownBeforeItIsSent(t *testing.T) {
	s := &store{acquire: mint}
	s.release = func(_ context.Context, _ int, r guardstore.Release) (guardstore.ReleaseReply, error) {
		reply := guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
		if r.Next != nil {
			s.tell(guardstore.Notification{Owner: r.Next.Owner})
			reply.Next, _ = busy(7, 4, time.Minute)
		}
		return reply, nil
	}
	inBubble(t, s, func(b *bench) {
		behind(b, func(release func(), next *caller) {
			begun := time.Now()
			release()
			got := b.has(next)
			assert.Equal(b, begun, time.Now())
			claims, _ := b.sent()
			assert.EqualValues(b, 7, claims[1].Ticket)
			assert.EqualValues(b, firstMint, claims[1].FenceAbove)
			b.ends(got)
		})
	})
}

// A next claim that waits keeps its place, and asks as one in front if it is there.
func TestANextClaimThatWaits(t *testing.T) {
	s := &store{acquire: mint}
	s.release = func(_ context.Context, _ int, r guardstore.Release) (guardstore.ReleaseReply, error) {
		reply := guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
		if r.Next != nil {
			reply.Next, _ = busy(7, 1, 0)
		}
		return reply, nil
	}
	inBubble(t, s, func(b *bench) {
		behind(b, func(release func(), next *caller) {
			begun := time.Now()
			release()
			b.waits(next) // of the new holder, nothing is known
			<-next.done
			assert.GreaterOrEqual(b, time.Since(begun), 700*time.Millisecond)
			assert.LessOrEqual(b, time.Since(begun), time.Second)
			b.ends(b.has(next))
		})
	})
}

// A release is repeated without the next claim, which asks for itself. It may have been granted
// the lock by the first attempt, which may yet arrive, too: it leaves a tombstone.
func TestAReleaseThatIsNotAnswered(t *testing.T) {
	for name, test := range map[string]struct{ answered int }{"at first": {2}, "at all": {100}} {
		t.Run(name, func(t *testing.T) {
			s := &store{acquire: mint}
			s.release = func(ctx context.Context, n int, r guardstore.Release) (guardstore.ReleaseReply, error) {
				if r.Fence > 0 && n < test.answered {
					<-ctx.Done()
					return guardstore.ReleaseReply{}, ctx.Err()
				}
				return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
			}
			inBubble(t, s, func(b *bench) {
				behind(b, func(release func(), next *caller) {
					s.acquire = queued(3, time.Minute)
					release()
					b.waits(next)
					claims, releases := b.sent()
					require.Len(b, claims, 2, "it asks for itself")
					require.NotNil(b, releases[0].Next)
					assert.Equal(b, releases[0].Next.Owner, claims[1].Owner)
					for _, r := range releases[1:] {
						assert.Nil(b, r.Next)
					}
					next.cancel()
					b.left(next)
					synctest.Wait()
					_, after := b.sent()
					require.Len(b, after, len(releases)+1)
					last := after[len(after)-1]
					assert.Equal(b, claims[1].Owner, last.Owner)
					assert.True(b, last.Tombstone)
				})
			})
		})
	}
}

// Nobody wants the lock any more when it is granted to the next claim: it is given back.
func TestANextClaimThatNobodyWants(t *testing.T) {
	s := &store{acquire: mint}
	s.release = func(_ context.Context, _ int, r guardstore.Release) (guardstore.ReleaseReply, error) {
		reply := guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
		if r.Next != nil {
			time.Sleep(attempt / 2)
			reply.Next, _ = held(5 * firstMint)
		}
		return reply, nil
	}
	inBubble(t, s, func(b *bench) {
		behind(b, func(release func(), next *caller) {
			time.AfterFunc(attempt/4, next.cancel)
			release()
			b.left(next)
			synctest.Wait()
			_, releases := b.sent()
			require.Len(b, releases, 2)
			assert.Equal(b, releases[0].Next.Owner, releases[1].Owner)
		})
	})
}

// What the store says of a hold that is kept after its work reaches those who do not wait.
func TestANextClaimBehindAMinHold(t *testing.T) {
	s := &store{acquire: mint}
	s.release = func(_ context.Context, _ int, r guardstore.Release) (guardstore.ReleaseReply, error) {
		reply := guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
		if r.Next != nil {
			reply.Next, _ = busy(7, 0, 300*time.Millisecond)
			reply.Next.Done = true
		}
		return reply, nil
	}
	inBubble(t, s, func(b *bench) {
		behind(b, func(release func(), next *caller) {
			begun := time.Now()
			release()
			<-next.done
			assert.GreaterOrEqual(b, time.Since(begun), 300*time.Millisecond)
			assert.LessOrEqual(b, time.Since(begun), 310*time.Millisecond, "it asks when the key is free")
			b.ends(b.has(next))
		})
	})
}

// The caller's context is over before the release is sent. Whoever sends it later leaves the next
// claim out: that asks for itself by then, or was given up.
func TestALateReleaseIsSentWithoutTheNextClaim(t *testing.T) {
	s := &store{acquire: mint}
	inBubble(t, s, func(b *bench) {
		h := b.has(b.comes())
		next := b.comes()
		time.Sleep(handover)
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		call, _, err := b.table.Release(ctx, h, retry.Label{Key: "k"}, timeout, 0)
		require.ErrorIs(b, err, retry.ErrNoAnswer)
		assert.Zero(b, call.Attempts)
		got := b.has(next)
		_, err = call.Run(b.Context(), nil, clock.Now().Add(timeout))
		require.NoError(b, err)
		_, releases := b.sent()
		require.Len(b, releases, 1)
		assert.Equal(b, h.Grant.Claim.Owner, releases[0].Owner)
		assert.Nil(b, releases[0].Next)
		b.ends(got)
	})
}
