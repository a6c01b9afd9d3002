package testenv

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/guardtest"
)

// Faulty is a Store in memory on which a test has something happen before a call, or lose its reply. The calls are acquire, release,
// forget, renew, and depth for a renewal that moves no expiry.
type Faulty struct {
	*guardtest.Store
	mu            sync.Mutex
	before, after func(ctx context.Context, op, key string) error
	claims        map[string]guardstore.Claim   // the last one of each key
	fences        map[string]uint64             // that of the last reply
	releases      map[string]guardstore.Release // the last one of each key
}

// NewFaulty makes a Faulty that is empty, and on which nothing happens.
func NewFaulty() *Faulty {
	return &Faulty{
		Store: guardtest.NewStore(), claims: map[string]guardstore.Claim{}, fences: map[string]uint64{}, releases: map[string]guardstore.Release{},
	}
}

// Trouble has something happen before, or after, each call from now on. An error is the reply.
func (s *Faulty) Trouble(before, after func(ctx context.Context, op, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// Last is the last claim for a key, and the fence that it was granted with.
func (s *Faulty) Last(key string) (guardstore.Claim, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[key], s.fences[key]
}

// Released is the last release of a key.
func (s *Faulty) Released(key string) guardstore.Release {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.releases[key]
}

// Outcome is what the last release of a key wrote.
func (s *Faulty) Outcome(key string) guardstore.Outcome { return *s.Released(key).Record }

func (s *Faulty) call(ctx context.Context, op, key string, do func()) error {
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, op, key); err != nil {
			return err
		}
	}
	do()
	if after != nil {
		return after(ctx, op, key)
	}
	return nil
}

// Acquire implements guardstore.Store.
func (s *Faulty) Acquire(ctx context.Context, c guardstore.Claim) (r guardstore.ClaimReply, err error) {
	if lost := s.call(ctx, "acquire", c.Key, func() {
		r, err = s.Store.Acquire(ctx, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.claims[c.Key], s.fences[c.Key] = c, r.Fence
	}); lost != nil {
		return guardstore.ClaimReply{}, lost
	}
	return r, err
}

// Release implements guardstore.Store.
func (s *Faulty) Release(ctx context.Context, c guardstore.Release) (r guardstore.ReleaseReply, err error) {
	if lost := s.call(ctx, "release", c.Key, func() {
		r, err = s.Store.Release(ctx, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.releases[c.Key] = c
	}); lost != nil {
		return guardstore.ReleaseReply{}, lost
	}
	return r, err
}

// Forget implements guardstore.Recorder.
func (s *Faulty) Forget(ctx context.Context, f guardstore.Forget) (status guardstore.ForgetStatus, err error) {
	if lost := s.call(ctx, "forget", f.Key, func() { status, err = s.Store.Forget(ctx, f) }); lost != nil {
		return 0, lost
	}
	return status, err
}

// Renew implements guardstore.Store.
func (s *Faulty) Renew(ctx context.Context, batch []guardstore.Grant) (r []guardstore.RenewReply) {
	op := "renew"
	if batch[0].TTL == 0 {
		op = "depth"
	}
	if lost := s.call(ctx, op, batch[0].Key, func() { r = s.Store.Renew(ctx, batch) }); lost != nil {
		return slices.Repeat([]guardstore.RenewReply{{Err: lost}}, len(batch))
	}
	return r
}

// NoneHeld checks that no owner holds or wants any of the keys.
func (s *Faulty) NoneHeld(t testing.TB, keys string) {
	t.Helper()
	for key := range strings.FieldsSeq(keys) {
		assert.Equal(t, 0, s.Depth(key), key)
		assert.Empty(t, s.Queue(key), key)
	}
}
