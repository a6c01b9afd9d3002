package cohort_test

import (
	"context"
	"errors"
	"sync"
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
	"github.com/redlatch/redlatch/guard/internal/testenv"
)

const (
	ttl       = 10 * time.Second
	timeout   = 2 * time.Second
	attempt   = time.Second
	handover  = 100 * time.Millisecond
	firstMint = 1000 // the fence of the first grant
)

var errUnanswered = errors.New("no answer")

// answer is what the store says to the nth claim.
type answer func(ctx context.Context, n int, c guardstore.Claim) (guardstore.ClaimReply, error)

// store is the store of a rig.
type store = testenv.Script

// claimed are the claims by now, so many.
func (b *rig) claimed(n int) []guardstore.Claim {
	b.Helper()
	synctest.Wait()
	claims, _ := b.Sent()
	require.Len(b, claims, n)
	return claims
}

// released are the releases by now, so many.
func (b *rig) released(n int) []guardstore.Release {
	b.Helper()
	synctest.Wait()
	_, releases := b.Sent()
	require.Len(b, releases, n)
	return releases
}

// wakes has the claim that was sent as the nth ask.
func (b *rig) wakes(n int) {
	claims, _ := b.Sent()
	b.Notify(guardstore.Notification{Owner: claims[n].Owner})
}

// held and busy are answers.
func held(fence uint64) (guardstore.ClaimReply, error) {
	return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: fence}, nil
}

func busy(place uint64, inFront int, remaining time.Duration) (guardstore.ClaimReply, error) {
	return guardstore.ClaimReply{Status: guardstore.ClaimBusy, Ticket: place, Ahead: inFront, Remaining: remaining}, nil
}

// mint grants the key to each caller that asks.
func mint(_ context.Context, n int, _ guardstore.Claim) (guardstore.ClaimReply, error) {
	return held(uint64(n) * firstMint)
}

// queued answers that another owner has the lock, with so many in front.
func queued(inFront int, remaining time.Duration) answer {
	return says(guardstore.ClaimReply{Status: guardstore.ClaimBusy, Ticket: 7, Ahead: inFront, Remaining: remaining})
}

func says(r guardstore.ClaimReply) answer {
	return func(context.Context, int, guardstore.Claim) (guardstore.ClaimReply, error) { return r, nil }
}

func fails(err error) answer {
	return func(context.Context, int, guardstore.Claim) (guardstore.ClaimReply, error) {
		return guardstore.ClaimReply{}, err
	}
}

// renews answers all renewals alike.
func renews(r guardstore.RenewReply) func(context.Context, int) guardstore.RenewReply {
	return func(context.Context, int) guardstore.RenewReply { return r }
}

// releasesIn answers releases after a while, unless the caller stops waiting.
func releasesIn(takes time.Duration) func(context.Context, int, guardstore.Release) (guardstore.ReleaseReply, error) {
	return func(ctx context.Context, _ int, _ guardstore.Release) (guardstore.ReleaseReply, error) {
		retry.Pause(ctx, nil, takes)
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, ctx.Err()
	}
}

// unanswered is a command that arrives, and whose reply does not.
func unanswered(ctx context.Context, _ int, _ guardstore.Claim) (guardstore.ClaimReply, error) {
	<-ctx.Done()
	return guardstore.ClaimReply{}, ctx.Err()
}

// slow is an answer that takes a while.
func slow(takes time.Duration, a answer) answer {
	return func(ctx context.Context, n int, c guardstore.Claim) (guardstore.ClaimReply, error) {
		time.Sleep(takes)
		return a(ctx, n, c)
	}
}

// inTurn gives one answer after the other, and then always the last.
func inTurn(answers ...answer) answer {
	return func(ctx context.Context, n int, c guardstore.Claim) (guardstore.ClaimReply, error) {
		return answers[min(n, len(answers))-1](ctx, n, c)
	}
}

// rig is a Table on a store.
type rig struct {
	*testing.T
	*store
	table *cohort.Table
	tasks *task.Group
	close func()
}

// inBubble runs a test on a Table that has a subscription, and nothing left in the end.
func inBubble(t *testing.T, s *store, run func(b *rig), change ...func(*cohort.Config)) {
	t.Helper()
	unsubscribed(t, s, func(b *rig) {
		b.table.Subscribe()
		synctest.Wait()
		run(b)
	}, change...)
}

// unsubscribed is inBubble for a process in which no call held a key yet, or waited for one.
func unsubscribed(t *testing.T, s *store, run func(b *rig), change ...func(*cohort.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &rig{T: t, store: s, tasks: task.NewGroup()}
		abort := make(chan struct{})
		c := cohort.Config{
			Store: s, Calls: &retry.Policy{Timeout: timeout, AttemptTimeout: attempt}, Tasks: b.tasks,
			Instance: "me", Handover: handover, Abort: abort,
			Awake: func(clock.Instant) {},
		}
		for _, f := range change {
			f(&c)
		}
		b.table = cohort.New(c)
		b.close = sync.OnceFunc(func() {
			b.table.Close(cohort.ErrClosed)
			b.tasks.WaitIdle(time.Minute)
			close(abort)
			<-b.tasks.Close()
		})
		defer b.close()
		run(b)
		synctest.Wait()
		keys, claims, waiting := testenv.Size(b.table)
		assert.Zero(t, keys, "keys")
		assert.Zero(t, claims, "claims")
		assert.Zero(t, waiting, "callers")
	})
}

// patient is for callers that wait longer than a grant lasts.
func patient(c *cohort.Config) { c.Calls = &retry.Policy{Timeout: 2 * ttl, AttemptTimeout: 2 * ttl} }

// caller is one call for the key.
type caller struct {
	cancel context.CancelFunc
	done   chan struct{}

	hold   cohort.Hold
	waited cohort.Waited
	err    error
}

func want(change ...func(*cohort.Request)) *cohort.Request {
	r := &cohort.Request{Label: retry.Label{Key: "k"}, Claim: guardstore.Claim{Key: "k", TTL: ttl}}
	waiting(time.Minute)(r)
	for _, f := range change {
		f(r)
	}
	return r
}

// What a call wants other than others.

func atOnce(r *cohort.Request) { r.Waits = false }

func waiting(d time.Duration) func(*cohort.Request) {
	return func(r *cohort.Request) { r.Waits, r.Until = true, clock.Now().Add(d) }
}

func key(k string) func(*cohort.Request) {
	return func(r *cohort.Request) { r.Label.Key, r.Claim.Key = k, k }
}

func metadata(m string) func(*cohort.Request) {
	return func(r *cohort.Request) { r.Claim.Metadata = m }
}

// comes has a caller ask for the key, and waits until it waits or has its result.
func (b *rig) comes(change ...func(*cohort.Request)) *caller {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	c := &caller{cancel: cancel, done: make(chan struct{})}
	b.Cleanup(cancel)
	go func() {
		defer close(c.done)
		c.hold, c.waited, c.err = b.table.Acquire(ctx, want(change...), clock.Now(), nil)
	}()
	synctest.Wait()
	return c
}

// has fails unless a caller has its lock by now.
func (b *rig) has(c *caller) cohort.Hold {
	b.Helper()
	synctest.Wait()
	require.True(b, task.IsClosed(c.done), "it still waits")
	require.NoError(b, c.err)
	return c.hold
}

func (b *rig) waits(c *caller) {
	b.Helper()
	synctest.Wait()
	require.False(b, task.IsClosed(c.done), "it does not wait")
}

// fails waits for the error of a call.
func (b *rig) fails(c *caller) error {
	b.Helper()
	<-c.done
	require.Error(b, c.err)
	return c.err
}

// leaves has a caller leave.
func (b *rig) leaves(c *caller) {
	b.Helper()
	c.cancel()
	b.left(c)
}

// left waits for the end of a call that was left.
func (b *rig) left(c *caller) {
	b.Helper()
	require.NotErrorIs(b, b.fails(c), cohort.ErrClosed)
}

// ends ends work in good order.
func (b *rig) ends(h cohort.Hold) error {
	b.Helper()
	_, err := h.Release(b.Context(), cohort.Patience{Most: timeout})
	synctest.Wait()
	return err
}
