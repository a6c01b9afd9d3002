package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/guard"
	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

const (
	roundMark     = "~"
	tombstoneLife = time.Minute          // of a claim; the servers have those of its rounds
	mostRounds    = 4                    // in one go, while no majority is taken
	splitRest     = 2 * time.Millisecond // at most between them
	closeGrace    = 500 * time.Millisecond

	answerTimeout = 500 * time.Millisecond // for one server's answer: half of what a Guard gives an attempt
)

// A Guard asks for what these say.
var (
	_ guardstore.Announcer    = (*Store)(nil)
	_ guardstore.LimitChecker = (*Store)(nil)
)

// Store is a guardstore.Store of several independent servers (Redlock:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/). A lock is held
// while a majority of them says so, or all of them with All: a minority may be down, slow, full,
// read-only or wiped. That a server lost its data shows at a lock's next renewal, after a third of
// its ttl at most. Then the server takes the lock again, together with all others that it lost, 64
// at a time: 300 of them are back after some five round trips. What a majority forgets before
// that is lost, as on one Redis.
//
// Its locks are exclusive: a Guard on it refuses Limit and Shared. Its methods are for Guards,
// and may be called from many goroutines. Make it with New.
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

	closeOnce sync.Once
	closeErr  error

	mu     sync.Mutex
	claims map[string]*claimState // by the claim's owner: under way, or holding
	ended  map[ending]time.Time   // claims that have tombstones, until when
}

// ending is the end of a claim.
type ending struct{ key, owner string }

// claimState is what this process knows of a claim while it is under way or holds.
type claimState struct {
	turn chan struct{} // one slot: its rounds go one at a time

	// Guarded by Store.mu.
	users    int
	finished bool   // released while a round was under way
	won      *round // it holds
}

// New makes a Store on several independent servers, each of them standalone or with
// Sentinel. Give it to guard.NewWithStore, and Close it after its Guards. The clients stay
// yours: the Store keeps a few connections of its own with their options, as guard.New does.
//
// It takes an odd number of servers, 3 at least, and asks each for its identity, for half a second at
// most: to find out that two clients lead to the same one. If a server does not answer then, a
// second client of it cannot be detected. Errors are guard.OptionErrors.
func New(clients []redis.UniversalClient, opts ...Option) (*Store, error) {
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if err := checkClients(clients); err != nil {
		return nil, err
	}
	if clock.Now().InBubble() {
		return nil, &guard.OptionError{Option: "clients", Reason: "do not work inside of a testing/synctest bubble, where " +
			"no time passes while a connection is waited for: make the Guard by guardtest.NewMemoryGuard, or the Store outside of the bubble"}
	}
	nodes := make([]server, len(clients))
	for i, client := range clients {
		nodes[i] = newNode(client, c.prefix)
	}
	s := newStore(nodes, answerTimeout, c.all)
	if i, j, found := s.sameServer(); found {
		_ = s.Close()
		return nil, &guard.OptionError{Option: "clients", Reason: fmt.Sprintf("leads to the same server at index %d and %d", i, j)}
	}
	return s, nil
}

func newStore(nodes []server, timeout time.Duration, all bool) *Store {
	s := &Store{
		nodes: nodes, need: len(nodes)/2 + 1, timeout: timeout,
		tasks: task.NewGroup(), closing: make(chan struct{}), claims: make(map[string]*claimState), ended: make(map[ending]time.Time),
		releases: make([]outbox, len(nodes)), repairs: make([]outbox, len(nodes)), breakers: make([]breaker, len(nodes)),
	}
	if all {
		s.need = len(nodes)
	}
	return s
}

// Close lets calls finish for half a second, then cuts it off, and returns when every
// goroutine of the Store is gone. The clients stay open. It may be called more than once. What was sent to
// a server that hangs, the server may execute later: a key that it grants then to a claim that has left is
// free there after the claim's ttl.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.tasks.WaitIdle(closeGrace)
		idle := s.tasks.Close()
		errs := make([]error, 0, len(s.nodes))
		for _, n := range s.nodes {
			errs = append(errs, n.Close())
		}
		<-idle
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

// CheckLimit implements guardstore.LimitChecker: a quorum has exclusive locks only.
func (s *Store) CheckLimit(l guardstore.Limit) error {
	switch l {
	case guardstore.Exclusive:
		return nil
	case guardstore.Unlimited:
		return errors.New("does not go with a quorum: its servers know one holder at a time, and wake one; use guard.New")
	}
	return fmt.Errorf("%d does not go with a quorum: each of its servers sees only some of the holders, "+
		"and a majority would let more than %d in; use guard.New", int(l), int(l))
}

// claimOf gives the owner of the claim that a round's owner belongs to.
func claimOf(owner string) string {
	owner, _, _ = strings.Cut(owner, roundMark)
	return owner
}

// begin notes a call for a claim.
func (s *Store) begin(key, owner string) *claimState {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.claims[owner]
	if b == nil {
		b = &claimState{turn: make(chan struct{}, 1)}
		s.claims[owner] = b
	}
	if _, ended := s.ended[ending{key, owner}]; ended {
		b.finished = true
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

func (s *Store) state(b *claimState) (won *round, finished bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.won, b.finished
}

// win makes a round the one by which the claim holds, unless the claim has ended.
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
	b := s.begin(c.Key, c.Owner)
	defer s.end(c.Owner, b)
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return guardstore.ClaimReply{}, ctx.Err()
	}
	if r, finished := s.state(b); finished {
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
		if reply.Status != guardstore.ClaimBusy {
			return reply, err
		}
		if c.Queue {
			reply, free, err = s.view(ctx, c, r)
			c.Ticket = reply.Ticket
		} else {
			s.abandon(ctx, r)
			free = r.first() // if a server granted it, perhaps no claim got a majority
		}
		if free < 0 || n == mostRounds {
			return reply, err
		}
		time.Sleep(rand.N(splitRest))
	}
}

// outcome is what a round came to. A round that did not win and is not busy is given up.
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
	s.abandonAsync(ctx, r)
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
	s.abandonAsync(ctx, r)
	return guardstore.ClaimReply{Status: guardstore.ClaimFinished}, nil
}

// view asks all servers how the lock stands, and to be woken. First it gives up a round
// that failed, if there was one. free is the first free server if a majority could be
// had, else -1.
func (s *Store) view(ctx context.Context, c guardstore.Claim, failed *round) (reply guardstore.ClaimReply, free int, err error) {
	answers := ask(ctx, s, func(ctx context.Context, n server, i int) (guardstore.ClaimReply, error) {
		if failed != nil {
			s.abandonOn(ctx, failed, n, i)
		}
		return n.Peek(ctx, c)
	})
	var views []guardstore.ClaimReply
	var errs serverErrors
	frees, first := 0, len(s.nodes)
	for pending := len(s.nodes); pending > 0 && frees < s.need; pending-- {
		a := <-answers
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
			continue
		case a.reply.Status == guardstore.ClaimFinished:
			return a.reply, -1, nil
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
