package cohort_test

import (
	"context"
	"errors"
	"slices"
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
	mostAsks  = 1000 // in a test
)

var errUnanswered = errors.New("no answer")

// answer is what the store says to the nth claim.
type answer func(ctx context.Context, n int, c guardstore.Claim) (guardstore.ClaimReply, error)

// store answers the nth command of a kind, counted from 1, as the test says.
type store struct {
	acquire answer
	release func(ctx context.Context, n int, r guardstore.Release) (guardstore.ReleaseReply, error)
	renew   func(ctx context.Context) guardstore.RenewReply // nil: everything is held
	silent  bool                                            // no messages flow
	mute    bool                                            // nor is it known whether they do
	late    bool                                            // nothing was held before: there is no subscription yet

	mu       sync.Mutex
	claims   []guardstore.Claim // as they came in
	asked    []time.Time        // when
	releases []guardstore.Release
	renewals []guardstore.Grant
	ear      guardstore.Listener
}

func (s *store) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	s.mu.Lock()
	s.claims, s.asked = append(s.claims, c), append(s.asked, time.Now())
	n := len(s.claims)
	s.mu.Unlock()
	if n > mostAsks {
		panic("somebody asks for ever")
	}
	return s.acquire(ctx, n, c)
}

func (s *store) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	s.mu.Lock()
	s.releases = append(s.releases, r)
	n := len(s.releases)
	s.mu.Unlock()
	if s.release == nil {
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
	}
	return s.release(ctx, n, r)
}

func (s *store) Listen(ctx context.Context, _ string, l guardstore.Listener) {
	s.mu.Lock()
	s.ear = l
	s.mu.Unlock()
	switch {
	case s.mute:
	case s.silent:
		l.Notify(guardstore.Notification{Err: errUnanswered})
	default:
		l.Notify(guardstore.Notification{})
	}
	<-ctx.Done()
}

func (s *store) Renew(ctx context.Context, grants []guardstore.Grant) []guardstore.RenewReply {
	s.mu.Lock()
	s.renewals = append(s.renewals, grants...)
	s.mu.Unlock()
	reply := guardstore.RenewReply{Held: true}
	if s.renew != nil {
		reply = s.renew(ctx)
	}
	return slices.Repeat([]guardstore.RenewReply{reply}, len(grants))
}

// checks are the renewals so far that move no expiry.
func (s *store) checks() (checks []guardstore.Grant) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.renewals {
		if g.TTL == 0 {
			checks = append(checks, g)
		}
	}
	return checks
}

// notify sends a message to this process.
func (s *store) notify(n guardstore.Notification) {
	s.mu.Lock()
	ear := s.ear
	s.mu.Unlock()
	ear.Notify(n)
}

// change sets what answers go by, between two commands.
func (s *store) change(set func()) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
}

// sent are the commands so far.
func (s *store) sent() (claims []guardstore.Claim, releases []guardstore.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims, s.releases
}

// claimed are the claims by now, so many.
func (b *bench) claimed(n int) []guardstore.Claim {
	b.Helper()
	synctest.Wait()
	claims, _ := b.sent()
	require.Len(b, claims, n)
	return claims
}

// released are the releases by now, so many.
func (b *bench) released(n int) []guardstore.Release {
	b.Helper()
	synctest.Wait()
	_, releases := b.sent()
	require.Len(b, releases, n)
	return releases
}

// asks is how often an acquire came in since then.
func (s *store) asks(since time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.asked {
		if at.After(since) {
			n++
		}
	}
	return n
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
	return held(uint64(n) * firstMint) //nolint:gosec // not negative
}

// queued answers that somebody else has the lock, with so many in front.
func queued(inFront int, remaining time.Duration) answer {
	return says(guardstore.ClaimReply{Status: guardstore.ClaimBusy, Ticket: 7, Ahead: inFront, Remaining: remaining})
}

func says(r guardstore.ClaimReply) answer {
	return func(context.Context, int, guardstore.Claim) (guardstore.ClaimReply, error) { return r, nil }
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

// bench is a Table on such a store.
type bench struct {
	*testing.T
	*store
	table *cohort.Table
	tasks *task.Group
	close func()
}

// inBubble runs a test on a Table that has nothing left in the end.
func inBubble(t *testing.T, s *store, run func(b *bench), change ...func(*cohort.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, store: s, tasks: task.NewGroup()}
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
		if !s.late {
			b.table.Subscribe()
			synctest.Wait()
		}
		run(b)
		synctest.Wait()
		keys, claims, waiting := testenv.Size(b.table)
		assert.Zero(t, keys, "keys")
		assert.Zero(t, claims, "claims")
		assert.Zero(t, waiting, "callers")
	})
}

// caller is one call for the key.
type caller struct {
	cancel context.CancelFunc
	done   chan struct{}

	hold   cohort.Hold
	waited cohort.Waited
	err    error
}

func want(change ...func(*cohort.Request)) *cohort.Request {
	r := &cohort.Request{Label: retry.Label{Key: "k"}, TTL: ttl, Wait: time.Minute}
	for _, f := range change {
		f(r)
	}
	return r
}

// comes has somebody ask for the key, and lets it get as far as it gets.
func (b *bench) comes(change ...func(*cohort.Request)) *caller {
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
func (b *bench) has(c *caller) cohort.Hold {
	b.Helper()
	synctest.Wait()
	require.True(b, task.IsClosed(c.done), "it still waits")
	require.NoError(b, c.err)
	return c.hold
}

func (b *bench) waits(c *caller) {
	b.Helper()
	synctest.Wait()
	require.False(b, task.IsClosed(c.done), "it does not wait")
}

// fails waits for the error of a call.
func (b *bench) fails(c *caller) error {
	b.Helper()
	<-c.done
	require.Error(b, c.err)
	return c.err
}

// leaves has a caller leave.
func (b *bench) leaves(c *caller) {
	b.Helper()
	c.cancel()
	b.left(c)
}

// left waits for the end of a call that was left.
func (b *bench) left(c *caller) {
	b.Helper()
	require.NotErrorIs(b, b.fails(c), cohort.ErrClosed)
}

// ends ends work in good order.
func (b *bench) ends(h cohort.Hold) error {
	b.Helper()
	_, err := h.Release(b.Context(), cohort.Patience{Most: timeout})
	synctest.Wait()
	return err
}
