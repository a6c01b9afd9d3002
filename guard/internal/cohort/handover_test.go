package cohort_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/cohort"
)

func withRecord(r *cohort.Request) { r.Claim.Once = &guardstore.Once{Keep: time.Hour} }

// Whether the next caller of this process gets the lock at once, or by way of the store.
func TestHandOver_ConditionsOfAHandOver(t *testing.T) {
	for name, test := range map[string]struct {
		age    time.Duration // of the grant, when its work ends
		change func(*cohort.Request)
		next   func(*cohort.Request)
		config func(*cohort.Config)
		ahead  bool
		grant  func(b *rig, h *cohort.Hold)
		passes bool
	}{
		"soon after the grant":          {age: time.Millisecond, passes: true},
		"within the window":             {age: handover - 1, passes: true},
		"when the window is over":       {age: handover},
		"one fence in a µs":             {age: time.Microsecond, passes: true},
		"two fences in a µs":            {age: time.Microsecond - 1},
		"a fence ahead of the clock":    {age: time.Millisecond, ahead: true},
		"a hold with a MinHold":         {age: time.Millisecond, grant: func(_ *rig, h *cohort.Hold) { h.MinHold = time.Second }},
		"to a hold with a MinHold":      {age: time.Millisecond, next: func(r *cohort.Request) { r.MinHold = time.Second }},
		"a grant that the store denied": {age: time.Millisecond, grant: func(_ *rig, h *cohort.Hold) { h.End(errUnanswered) }},
		"just before half of the ttl":   {age: ttl/2 - 1, config: func(c *cohort.Config) { c.Handover = time.Minute }, passes: true},
		"at half of the ttl":            {age: ttl / 2, config: func(c *cohort.Config) { c.Handover = time.Minute }},
		"in strict order":               {age: time.Millisecond, config: func(c *cohort.Config) { c.Handover = 0 }},
		"with a record":                 {age: time.Millisecond, change: withRecord, next: withRecord},
		"to a caller with another ttl":  {age: time.Millisecond, next: func(r *cohort.Request) { r.Claim.TTL = ttl + time.Second }},
		"to a caller with a limit":      {age: time.Millisecond, next: func(r *cohort.Request) { r.Claim.Limit = 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{}
			s.OnAcquire = func(_ context.Context, n int, _ guardstore.Claim) (guardstore.ClaimReply, error) {
				r, err := held(uint64(n) * firstMint)
				r.FenceAhead = test.ahead
				return r, err
			}
			change := func(r *cohort.Request) {
				if test.change != nil {
					test.change(r)
				}
			}
			next := func(r *cohort.Request) {
				if test.next != nil {
					test.next(r)
				}
			}
			config := func(c *cohort.Config) {
				if test.config != nil {
					test.config(c)
				}
			}
			inBubble(t, s, func(b *rig) {
				first := b.has(b.comes(change))
				require.EqualValues(b, firstMint, first.Fence)
				second := b.comes(next)
				if test.grant != nil {
					test.grant(b, &first)
				}
				time.Sleep(test.age)
				_ = b.ends(first)
				got := b.has(second)
				_, releases := b.Sent()
				assert.Equal(b, test.passes, second.waited.Local)
				if test.passes {
					assert.Empty(b, releases)
					assert.Equal(b, first.Fence+1, got.Fence)
					assert.Equal(b, first.Claim.Owner, got.Claim.Owner)
				} else {
					assert.Len(b, releases, 1)
					assert.Equal(b, first.Fence, releases[0].Fence)
					assert.Greater(b, got.Fence, first.Fence+1)
					assert.NotEqual(b, first.Claim.Owner, got.Claim.Owner)
				}
				_ = b.ends(got)
				_, releases = b.Sent()
				last := releases[len(releases)-1]
				assert.Equal(b, []any{got.Fence, got.Claim.Owner, got.Claim.TTL, false}, []any{last.Fence, last.Owner, last.TTL, last.Tombstone})
			}, config)
		})
	}
}

// Callers of one process are served as they came.
func TestHandOver_TheFirstInTheQueueIsNext(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
		h := b.has(b.comes(metadata("first")))
		second, third := b.comes(), b.comes()
		time.Sleep(time.Millisecond)
		_ = b.ends(h)
		h = b.has(second)
		b.waits(third)
		assert.Equal(b, 1, h.Waiting())
		assert.Equal(b, cohort.Waited{Queued: true, Local: true, State: cohort.State{Busy: true, Holder: "first"}}, second.waited)
		_ = b.ends(h)
		_ = b.ends(b.has(third))
	})
}

// A hold is lost: the callers that wait ask, for a fence above all that were handed out.
func TestHandOver_CallersOfALostHoldGoOn(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint}, func(b *rig) {
		h := b.has(b.comes())
		second, third := b.comes(metadata("second")), b.comes()
		begun := time.Now()
		h.Fence += 7
		h.Abandon(b.Context())
		h.Abandon(b.Context()) // twice is as good
		got := b.has(second)
		assert.Equal(b, begun, time.Now())
		claims := b.claimed(2)
		assert.EqualValues(b, firstMint+7, claims[1].FenceAbove)
		assert.Equal(b, "second", claims[1].Metadata)
		assert.True(b, claims[1].Queue)
		assert.NotEqual(b, claims[0].Owner, claims[1].Owner)
		b.waits(third)
		time.Sleep(time.Millisecond)
		_ = b.ends(h)
		b.waits(third) // what was lost is not handed over
		_ = b.ends(got)
		_ = b.ends(b.has(third))
	})
}

// PassOn gives the key to the next caller at once. A caller that comes after it, and before the release was answered,
// does not find the key busy, even if it does not wait: its claim follows the release.
func TestHandOver_PassOnComesBeforeAnAsynchronousRelease(t *testing.T) {
	for name, age := range map[string]time.Duration{"in the window": time.Millisecond, "after it": handover} {
		for _, queues := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, &store{OnAcquire: mint, OnRelease: releasesIn(attempt / 2)}, func(b *rig) {
					h, handsOver := b.has(b.comes()), queues && age < handover
					var c *caller
					if queues {
						c = b.comes()
					}
					time.Sleep(age)
					h.PassOn()
					if queues { // then that caller is in front
						require.ErrorIs(b, b.fails(b.comes(atOnce)), cohort.ErrBusy)
					} else {
						c = b.comes(atOnce)
					}
					if !handsOver {
						b.waits(c)
					}
					begun := time.Now()
					handedOver, err := h.Release(b.Context(), cohort.Patience{Most: timeout})
					require.NoError(b, err)
					assert.Equal(b, handsOver, handedOver)
					next := b.has(c)
					assert.Equal(b, handsOver, next.Claim.Owner == h.Claim.Owner)
					assert.Equal(b, queues, c.waited.Queued)
					if !handsOver {
						assert.Equal(b, attempt/2, time.Since(begun))
					}
					require.ErrorIs(b, b.fails(b.comes(atOnce)), cohort.ErrBusy, "it is in use again")
					_ = b.ends(next)
				})
			})
		}
	}
}

// The callers that waited in front of it have left: a caller that does not wait waits for the release that is under way.
func TestHandOver_NoWaitWhileAGrantIsReleased(t *testing.T) {
	inBubble(t, &store{OnAcquire: mint, OnRelease: releasesIn(attempt / 2)}, func(b *rig) {
		h, second := b.has(b.comes()), b.comes()
		time.Sleep(handover)
		h.PassOn()
		b.leaves(second)
		third := b.comes(atOnce)
		b.waits(third)
		_ = b.ends(h)
		_ = b.ends(b.has(third))
	})
}
