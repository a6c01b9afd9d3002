package testenv

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// mostAsks is how often a Script is asked for a lock at most: a claim that asks for ever fails its test.
const mostAsks = 1000

var errSilent = errors.New("no messages flow")

// Script is a store in virtual time that answers the nth command of a kind, counted from 1, as a test says, and notes
// what it was sent. Releases and renewals succeed unless the test says otherwise. Read its lists after synctest.Wait.
type Script struct {
	OnAcquire func(ctx context.Context, n int, c guardstore.Claim) (guardstore.ClaimReply, error)
	OnRelease func(ctx context.Context, n int, r guardstore.Release) (guardstore.ReleaseReply, error)
	OnRenew   func(ctx context.Context, n int) guardstore.RenewReply // to each grant of the nth batch

	Silent bool // no messages flow
	Mute   bool // it is not known whether messages flow

	mu       sync.Mutex
	Claims   []guardstore.Claim
	asked    []time.Time // when each of Claims came
	Releases []guardstore.Release
	Renewals []guardstore.Grant
	batches  []int // the lengths of those of Renewals
	Listener guardstore.Listener
}

// Acquire implements guardstore.Store.
func (s *Script) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	s.mu.Lock()
	s.Claims, s.asked = append(s.Claims, c), append(s.asked, time.Now())
	n, answer := len(s.Claims), s.OnAcquire
	s.mu.Unlock()
	if n > mostAsks {
		panic("a claim asks for ever")
	}
	return answer(ctx, n, c)
}

// Release implements guardstore.Store.
func (s *Script) Release(ctx context.Context, r guardstore.Release) (guardstore.ReleaseReply, error) {
	s.mu.Lock()
	s.Releases = append(s.Releases, r)
	n, answer := len(s.Releases), s.OnRelease
	s.mu.Unlock()
	if answer == nil {
		return guardstore.ReleaseReply{Status: guardstore.ReleaseDone}, nil
	}
	return answer(ctx, n, r)
}

// Renew implements guardstore.Store.
func (s *Script) Renew(ctx context.Context, grants []guardstore.Grant) []guardstore.RenewReply {
	s.mu.Lock()
	s.Renewals, s.batches = append(s.Renewals, grants...), append(s.batches, len(grants))
	n, answer := len(s.batches), s.OnRenew
	s.mu.Unlock()
	reply := guardstore.RenewReply{Held: true}
	if answer != nil {
		reply = answer(ctx, n)
	}
	return slices.Repeat([]guardstore.RenewReply{reply}, len(grants))
}

// Listen implements guardstore.Store.
func (s *Script) Listen(ctx context.Context, _ string, l guardstore.Listener) {
	s.mu.Lock()
	s.Listener = l
	s.mu.Unlock()
	switch {
	case s.Mute:
	case s.Silent:
		l.Notify(guardstore.Notification{Err: errSilent})
	default:
		l.Notify(guardstore.Notification{})
	}
	<-ctx.Done()
}

// Batches are the lengths of the batches of renewals so far.
func (s *Script) Batches() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

// Sent are the claims and releases so far.
func (s *Script) Sent() ([]guardstore.Claim, []guardstore.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Claims, s.Releases
}

// Notify sends a message to the process.
func (s *Script) Notify(n guardstore.Notification) {
	s.mu.Lock()
	l := s.Listener
	s.mu.Unlock()
	l.Notify(n)
}

// Change sets what answers go by, between two commands.
func (s *Script) Change(set func()) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
}

// Asks is how many claims came after an instant.
func (s *Script) Asks(since time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.asked {
		if at.After(since) {
			n++
		}
	}
	return n
}

// Checks are the renewals so far that move no expiry.
func (s *Script) Checks() (checks []guardstore.Grant) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.Renewals {
		if g.TTL == 0 {
			checks = append(checks, g)
		}
	}
	return checks
}
