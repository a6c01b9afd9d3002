package rules_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
)

const (
	ttl     = 30 * time.Second
	timeout = 2 * time.Second

	mostRenewals = 1000 // in a test
)

var (
	key = guard.Key("k")

	errUnanswered = errors.New("no answer")
	errBroken     = errors.New("broken")
)

// store grants what it is asked for, and holds it, unless the test says otherwise.
type store struct {
	acquire func(n int, c guardstore.Claim) (guardstore.ClaimReply, error)
	depth   func(n int, g guardstore.Grant) guardstore.RenewReply // of those that move no expiry
	renew   func(n int, g guardstore.Grant) guardstore.RenewReply
	release func(n int, r guardstore.Release) (guardstore.ReleaseReply, error)

	mu       sync.Mutex
	claims   []guardstore.Claim
	depths   []guardstore.Grant
	renewals []guardstore.Grant
	releases []guardstore.Release
	ear      guardstore.Listener
}

func (s *store) Acquire(_ context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	s.mu.Lock()
	s.claims = append(s.claims, c)
	n := len(s.claims)
	s.mu.Unlock()
	if s.acquire != nil {
		return s.acquire(n, c)
	}
	return held(n)
}

func held(n int) (guardstore.ClaimReply, error) {
	return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Fence: uint64(n) * 1000}, nil //nolint:gosec // not negative
}

func (s *store) Renew(_ context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	replies := make([]guardstore.RenewReply, len(batch))
	for i, g := range batch {
		replies[i] = s.renewOne(g)
	}
	return replies
}

func (s *store) renewOne(g guardstore.Grant) guardstore.RenewReply {
	confirms := g.TTL == 0
	s.mu.Lock()
	all, answer := &s.renewals, s.renew
	if confirms {
		all = &s.depths
	}
	if confirms && s.depth != nil {
		answer = s.depth
	}
	*all = append(*all, g)
	n := len(*all)
	s.mu.Unlock()
	switch {
	case n > mostRenewals:
		panic("something is renewed for ever")
	case answer == nil:
		return guardstore.RenewReply{Held: true}
	}
	return answer(n, g)
}

func (s *store) Release(_ context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	s.mu.Lock()
	s.releases = append(s.releases, r)
	n := len(s.releases)
	s.mu.Unlock()
	if s.release != nil {
		return s.release(n, r)
	}
	return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
}

func (s *store) Listen(ctx context.Context, _ string, l guardstore.Listener) {
	s.mu.Lock()
	s.ear = l
	s.mu.Unlock()
	l.Notify(guardstore.Notification{})
	<-ctx.Done()
}

// count is how many commands came in.
func (s *store) count() (claims, depths, renewals, releases int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims), len(s.depths), len(s.renewals), len(s.releases)
}

func (s *store) released() []guardstore.Release {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.releases
}

// watcher is an observer that calls the test.
type watcher struct {
	guard.NopObserver
	waitEnd func(guard.WaitResult)
	event   func(ctx context.Context, e guard.Event)
	holdEnd func(guard.HoldResult)
}

func (w *watcher) WaitEnd(_ context.Context, _ guard.Lock, r guard.WaitResult) {
	if w.waitEnd != nil {
		w.waitEnd(r)
	}
}

func (w *watcher) Event(ctx context.Context, _ guard.Lock, e guard.Event) {
	if w.event != nil {
		w.event(ctx, e)
	}
}

func (w *watcher) HoldEnd(_ context.Context, _ guard.Lock, r guard.HoldResult) {
	if w.holdEnd != nil {
		w.holdEnd(r)
	}
}

// inBubble runs a test with a Guard that is closed in the end.
func inBubble(t *testing.T, s *store, run func(t *testing.T, g *guard.Guard), opts ...guard.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, err := guard.NewWithStore(s, append([]guard.Option{guard.TTL(ttl), guard.StoreTimeout(timeout)}, opts...)...)
		require.NoError(t, err)
		defer func() { _ = g.Close() }()
		run(t, g)
	})
}

func acquire(t *testing.T, ctx context.Context, g *guard.Guard, opts ...guard.LockOption) *guard.Lease {
	t.Helper()
	l, err := g.Acquire(ctx, key, opts...)
	require.NoError(t, err)
	return l
}
