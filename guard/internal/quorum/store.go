package quorum

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/redisstore"
	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	roundMark  = "~"
	mostRounds = 4                    // in one go, while no majority is taken
	splitRest  = 2 * time.Millisecond // at most between them
	closeGrace = 500 * time.Millisecond
)

// Store is the Store of several independent servers: Redlock. Every round of a
// claim has its own owner; those who wait are woken by the end of a grant only, so that
// failed rounds do not keep each other busy.
type Store struct {
	nodes    []server
	need     int
	timeout  time.Duration // for one server's answer
	tasks    *task.Group
	closing  chan struct{}
	rounds   atomic.Uint64
	releases []outbox // by each server: to give back
	repairs  []outbox // by each server: to hold again
	breakers []breaker

	mu     sync.Mutex
	claims map[string]*claimState // by the claim's owner: under way, or holding
}

// claimState is what this process knows of a claim while it is under way or holds.
type claimState struct {
	turn chan struct{} // one slot: its rounds go one at a time

	// Guarded by Store.mu.
	users    int
	finished bool   // released while a round was under way
	won      *round // it holds
}

// Config is what New needs to know.
type Config struct {
	Prefix         string
	AttemptTimeout time.Duration // for one attempt: half of it for one server's answer
	Renewals       int           // batches at a time
	All            bool          // a lock needs all servers, not a majority of them
}

// server is a *redisstore.Store, but in tests.
type server interface {
	guardstore.Store
	guardstore.Announcer
	Peek(ctx context.Context, c guardstore.Claim) (redisstore.View, error)
	Notify(ctx context.Context, key, owner string) error
	Forget(ctx context.Context, key, owner string)
	RaiseFence(ctx context.Context, c guardstore.Claim, fence uint64) (bool, error)
	Rollback(ctx context.Context, c guardstore.Claim, tombstone bool) error
	ServerID(ctx context.Context) (string, error)
	Close() error
}

// New makes a Store on servers of which a majority has to agree. It sends nothing.
func New(clients []redis.UniversalClient, c Config) *Store {
	nodes := make([]server, len(clients))
	for i, client := range clients {
		nodes[i] = redisstore.New(client, redisstore.Config{Prefix: c.Prefix, AttemptTimeout: c.AttemptTimeout / 2, Renewals: c.Renewals})
	}
	return newStore(nodes, c)
}

func newStore(nodes []server, c Config) *Store {
	s := &Store{
		nodes: nodes, need: len(nodes)/2 + 1, timeout: c.AttemptTimeout / 2,
		tasks: task.NewGroup(), closing: make(chan struct{}), claims: make(map[string]*claimState),
		releases: make([]outbox, len(nodes)), repairs: make([]outbox, len(nodes)), breakers: make([]breaker, len(nodes)),
	}
	if c.All {
		s.need = len(nodes)
	}
	return s
}

// Close lets what is on its way finish, then cuts it off.
func (s *Store) Close() error {
	close(s.closing)
	s.tasks.WaitIdle(closeGrace)
	idle := s.tasks.Close()
	errs := make([]error, 0, len(s.nodes))
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
	}
	<-idle
	return errors.Join(errs...)
}

// claimOf gives the owner of the claim that a round's owner belongs to.
func claimOf(owner string) string {
	owner, _, _ = strings.Cut(owner, roundMark)
	return owner
}

// begin notes a call for a claim.
func (s *Store) begin(owner string) *claimState {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.claims[owner]
	if b == nil {
		b = &claimState{turn: make(chan struct{}, 1)}
		s.claims[owner] = b
	}
	b.users++
	return b
}

func (s *Store) end(owner string, b *claimState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.users--
	if b.users == 0 && b.won == nil {
		delete(s.claims, owner)
	}
}

// round gives the round by which an owner holds, or nil.
func (s *Store) round(owner string) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.claims[claimOf(owner)]; b != nil {
		return b.won
	}
	return nil
}

func (s *Store) state(b *claimState) (won *round, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.won, b.finished
}

// win makes a round the one by which the claim holds, unless the claim is over.
func (s *Store) win(b *claimState, r *round) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.finished {
		return false
	}
	b.won = r
	return true
}

// Acquire implements guardstore.Store.
func (s *Store) Acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	return task.Do(ctx, s.tasks, func(ctx context.Context) (guardstore.ClaimReply, error) { return s.acquire(ctx, c) })
}

func (s *Store) acquire(ctx context.Context, c guardstore.Claim) (guardstore.ClaimReply, error) {
	b := s.begin(c.Owner)
	defer s.end(c.Owner, b)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return guardstore.ClaimReply{}, ctx.Err()
	}
	if r, over := s.state(b); over {
		return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
	} else if r != nil {
		return s.confirm(ctx, b, r, c.TTL)
	}
	free := -1
	if c.Ticket > 0 { // it waits: no round while a majority is taken
		var reply guardstore.ClaimReply
		var err error
		if reply, free, err = s.view(ctx, c, nil); free < 0 {
			return reply, err
		}
	}
	for n := 1; ; n++ {
		r := s.newRound(c)
		var t tally
		if free < 0 {
			t = s.runRound(ctx, r, nil)
		} else {
			t = s.runRoundInOrder(ctx, r, free)
		}
		reply, err := s.outcome(ctx, b, r, t)
		if err != nil || reply.Status != guardstore.ClaimBusy {
			return reply, err
		}
		free = -1
		if c.Queue {
			reply, free, err = s.view(ctx, c, r)
			c.Ticket = reply.Ticket
		} else {
			s.abandon(ctx, r)
			if t.split(s) {
				free = r.first()
			}
		}
		if free < 0 || n == mostRounds {
			return reply, err
		}
		time.Sleep(rand.N(splitRest)) //nolint:gosec // jitter: others try, too
	}
}

// outcome is what a round came to. One that did not win and is not busy is given up.
func (s *Store) outcome(ctx context.Context, b *claimState, r *round, t tally) (guardstore.ClaimReply, error) {
	err := t.errs.join(s)
	if t.held >= s.need {
		if err = s.agreeOnFence(ctx, r); err == nil && s.win(b, r) {
			return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Owner: r.claim.Owner, Fence: r.fence, FenceAhead: r.ahead}, nil
		}
		if err == nil {
			t.withdrawn = true
		}
	} else if t.answered >= s.need && !t.withdrawn {
		return r.busy(s), nil
	}
	s.abandonBehind(ctx, r)
	if t.withdrawn {
		return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
	}
	return guardstore.ClaimReply{}, err
}

// confirm answers a claim that holds.
func (s *Store) confirm(ctx context.Context, b *claimState, r *round, ttl time.Duration) (guardstore.ClaimReply, error) {
	reply := s.renew(ctx, []guardstore.Grant{{Key: r.claim.Key, Owner: r.claim.Owner, Fence: r.fence, TTL: ttl, Depth: 1, Metadata: r.claim.Metadata}})[0]
	switch {
	case reply.Err != nil:
		return guardstore.ClaimReply{}, reply.Err
	case reply.Held:
		return guardstore.ClaimReply{Status: guardstore.ClaimHeld, Owner: r.claim.Owner, Fence: r.fence, FenceAhead: r.ahead}, nil
	}
	s.mu.Lock()
	b.won = nil
	s.mu.Unlock()
	s.abandonBehind(ctx, r)
	return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
}

// view asks all servers how the lock stands, and to be woken. First it gives up a round
// that failed, if there was one. free is the first free server if a majority could be
// had, else -1.
func (s *Store) view(ctx context.Context, c guardstore.Claim, failed *round) (reply guardstore.ClaimReply, free int, err error) {
	answers := askAndGoOn(ctx, s, func(ctx context.Context, n server, i int, answer func(redisstore.View, error)) {
		if failed != nil {
			err := failed.abandonOn(ctx, n, i)
			defer s.abandonLater(ctx, failed, n, i, err)
		}
		answer(n.Peek(ctx, c))
	})
	var views []redisstore.View
	var errs serverErrors
	frees, first := 0, len(s.nodes)
	for pending := len(s.nodes); pending > 0 && frees < s.need; pending-- {
		a := <-answers
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
			continue
		case a.reply.Finished:
			return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, -1, nil
		case a.reply.Remaining == 0:
			frees++
			first = min(first, a.node)
		}
		views = append(views, a.reply)
	}
	if len(views) < s.need {
		return guardstore.ClaimReply{}, -1, errs.join(s)
	}
	if frees < s.need {
		first = -1
	}
	return summarize(s, views), first, nil
}
