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
)

// The tests of this file are about the claim by which those in the queue go on after a grant of
// their process was released.

// holdAndQueue has one caller hold the lock for longer than the handover window, and one wait.
func holdAndQueue(b *rig, then func(release func(), next *caller)) {
	b.Helper()
	h := b.has(b.comes())
	next := b.comes()
	time.Sleep(handover)
	then(func() { _ = b.ends(h) }, next)
}

// The claim is sent once the release was answered, so that claims of other processes are in
// front, and its fence is to be above that of the grant.
func TestNext_TheNextClaimFollowsTheRelease(t *testing.T) {
	s := &store{OnAcquire: mint}
	s.OnRelease = func(_ context.Context, n int, _ guardstore.Release) (guardstore.ReleaseReply, error) {
		time.Sleep(attempt / 2)
		claims, _ := s.Sent()
		assert.Len(t, claims, n, "the next claim did not wait for the answer")
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
	}
	inBubble(t, s, func(b *rig) {
		holdAndQueue(b, func(release func(), next *caller) {
			release()
			got := b.has(next)
			claims := b.claimed(2)
			assert.EqualValues(b, firstMint, claims[1].FenceAbove)
			_ = b.ends(got)
		})
	})
}

// A release that is not answered keeps no caller waiting for longer than the call lasts.
func TestNext_AReleaseThatIsNotAnswered(t *testing.T) {
	for name, test := range map[string]struct{ answered int }{"at first": {2}, "at all": {100}} {
		t.Run(name, func(t *testing.T) {
			s := &store{OnAcquire: mint}
			s.OnRelease = func(ctx context.Context, n int, r guardstore.Release) (guardstore.ReleaseReply, error) {
				if r.Fence > 0 && n < test.answered {
					<-ctx.Done()
					return guardstore.ReleaseReply{}, ctx.Err()
				}
				return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
			}
			inBubble(t, s, func(b *rig) {
				holdAndQueue(b, func(release func(), next *caller) {
					s.OnAcquire = queued(3, time.Minute)
					begun := time.Now()
					release()
					assert.LessOrEqual(b, time.Since(begun), timeout)
					b.waits(next)
					claims, releases := b.Sent()
					require.Len(b, claims, 2, "it asks")
					assert.GreaterOrEqual(b, len(releases), 2, "it is repeated")
					b.leaves(next)
					synctest.Wait()
					_, after := b.Sent()
					require.Greater(b, len(after), len(releases))
					assert.Equal(b, claims[1].Owner, after[len(releases)].Owner, "it gives up its place")
				})
			})
		})
	}
}

// The caller's context ends before the release is sent: the next claim does not wait for
// the later sender.
func TestNext_AReleaseThatIsSentLaterDelaysNoClaim(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
		h := b.has(b.comes())
		next := b.comes()
		time.Sleep(handover)
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		_, err := h.Release(ctx, cohort.Patience{Most: timeout})
		require.ErrorIs(b, err, retry.ErrNoAnswer)
		got := b.has(next)
		releases := b.released(1)
		assert.Equal(b, h.Claim.Owner, releases[0].Owner)
		_ = b.ends(got)
	})
}
