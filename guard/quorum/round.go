package quorum

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/redlatch/redlatch/guard/guardstore"
)

// round is one try to get a lock from a majority, under an owner of its own: what is
// left of a round that failed cannot be taken for part of the next one.
type round struct {
	claim guardstore.Claim // with the round's owner

	mu    sync.Mutex
	votes []vote
	fence uint64

	ahead bool // of the clock of a server that the fence counts on
}

var errTooFew = errors.New("no longer held on enough servers")

// vote is what one server said.
type vote struct {
	fence    uint64 // 0: not for us
	inDoubt  bool   // an acquire may be on its way
	revoked  bool   // it has the lock for us, and renews it no more
	answered bool
	done     chan struct{} // closed when it is answered, if a caller waits for that
	reply    guardstore.ClaimReply
	err      error
}

// tally is how a round stands.
type tally struct {
	held, answered, pending int
	withdrawn               bool
	errs                    serverErrors
}

// decided says that further answers change nothing. A round that cannot be won continues until
// enough servers have answered: only then is it known to be busy. If they cannot, it has failed.
func (t *tally) decided(s *Store) bool {
	switch {
	case t.held >= s.need, t.withdrawn, t.answered+t.pending < s.need:
		return true
	}
	return t.held+t.pending < s.need && t.answered >= s.need
}

func (s *Store) newRound(c guardstore.Claim) *round {
	c.Owner = s.newRoundOwner(c.Owner)
	c.Queue, c.Ticket = false, 0
	return &round{claim: c, votes: make([]vote, len(s.nodes))}
}

// runRound runs a round, and returns when it is decided. All servers are asked at once, or only
// those that the first one left.
func (s *Store) runRound(ctx context.Context, r *round, first *answer[guardstore.ClaimReply]) tally {
	for i := range r.votes {
		r.votes[i].inDoubt = first == nil || first.node != i
	}
	answers := ask(ctx, s, func(ctx context.Context, n server, i int) (guardstore.ClaimReply, error) {
		if first != nil && first.node == i {
			return first.reply, first.err
		}
		return s.acquireOn(ctx, n, i, r, r.claim)
	})
	t := tally{pending: len(s.nodes)}
	for !t.decided(s) {
		t.add(<-answers)
	}
	return t
}

// runRoundInOrder runs a round that asks one server before the others, the first that seems
// free: claims that split the servers among themselves do not do so again.
func (s *Store) runRoundInOrder(ctx context.Context, r *round, first int) tally {
	var errs serverErrors
	for n := range s.nodes {
		i := (first + n) % len(s.nodes)
		r.votes[i].inDoubt = true
		one := askOne(ctx, s, i, func(ctx context.Context, n server, i int) (guardstore.ClaimReply, error) {
			return s.acquireOn(ctx, n, i, r, r.claim)
		})
		if one.err != nil {
			if errs = append(errs, one.err); len(errs) > len(s.nodes)-s.need {
				break
			}
			continue
		}
		if one.reply.Status == guardstore.ClaimHeld {
			return s.runRound(ctx, r, &one)
		}
		// That enough servers answer was seen a moment ago.
		return tally{answered: s.need, withdrawn: one.reply.Status == guardstore.ClaimFinished}
	}
	return tally{errs: errs}
}

// acquireOn asks one server for the lock, and counts what it says, whenever it does.
func (s *Store) acquireOn(ctx context.Context, n server, i int, r *round, c guardstore.Claim) (guardstore.ClaimReply, error) {
	reply, err := reach(s, i, func() (guardstore.ClaimReply, error) { return n.Acquire(ctx, c) })
	r.count(i, reply, err)
	return reply, err
}

func (t *tally) add(a answer[guardstore.ClaimReply]) {
	t.pending--
	switch {
	case a.err != nil:
		t.errs = append(t.errs, a.err)
		return
	case a.reply.Status == guardstore.ClaimHeld:
		t.held++
	case a.reply.Status == guardstore.ClaimFinished:
		t.withdrawn = true
	}
	t.answered++
}

func (r *round) count(i int, reply guardstore.ClaimReply, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.votes[i]
	v.reply, v.err, v.answered = reply, err, true
	if v.done != nil {
		close(v.done)
		v.done = nil
	}
	switch {
	case err == nil:
		v.inDoubt = false
		v.fence = reply.Fence
	case neverSent(err):
		v.inDoubt = false
	}
}

// first is the first server that voted for the round, or -1.
func (r *round) first() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.IndexFunc(r.votes, func(v vote) bool { return v.fence > 0 })
}

func (r *round) vote(i int) vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.votes[i]
}

// concerns says that a server holds the lock for the round, or may yet.
func (r *round) concerns(i int) bool {
	v := r.vote(i)
	return v.fence > 0 || v.inDoubt || v.revoked
}

// lost notes that a server does not hold the lock for the round any more.
func (r *round) lost(i int, revoked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes[i].fence, r.votes[i].revoked = 0, revoked
}

// wasRevoked says that the hold was revoked on some server.
func (r *round) wasRevoked() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.votes, func(v vote) bool { return v.revoked })
}

// agreeOnFence makes the highest fence of a majority that of the round. It writes
// the fence to a majority where a server's clock is so slow that, after a crash, it could give a lower one
// before the ttl and the hand-overs of a grant have made up for it. A
// fence that is higher than its server's clock does not show how slow that clock is.
func (s *Store) agreeOnFence(ctx context.Context, r *round) error {
	r.mu.Lock()
	fences, apart := make([]uint64, 0, len(r.votes)), uint64(r.claim.TTL.Microseconds())/2
	for _, v := range r.votes {
		if v.fence > 0 {
			fences = append(fences, v.fence)
			r.ahead = r.ahead || v.reply.FenceAhead
		}
	}
	low, high := slices.Min(fences), slices.Max(fences)
	r.fence = high
	raise := high-low > apart || slices.ContainsFunc(r.votes, func(v vote) bool {
		return v.reply.FenceAhead && v.fence < high
	})
	r.ahead = r.ahead || raise
	r.mu.Unlock()
	if !raise {
		return nil
	}
	return s.agree(ask(ctx, s, func(ctx context.Context, n server, i int) (bool, error) {
		if r.vote(i).fence == 0 {
			return false, nil
		}
		return n.RaiseFence(ctx, r.claim, high)
	}))
}

// abandonOn takes back what a round that failed got, or may yet get, on one server. A server that does
// not answer is asked again. When it does, the claims that found the lock taken there are notified: they
// know of no end of a grant that they could wait for.
func (s *Store) abandonOn(ctx context.Context, r *round, n server, i int) {
	rollback := func(ctx context.Context, notify bool) error {
		if !r.concerns(i) {
			return nil
		}
		return n.Rollback(ctx, r.claim, r.vote(i).inDoubt, notify)
	}
	err := rollback(ctx, false)
	s.deliverLater(ctx, i, err, r.claim.TTL, func(ctx context.Context) error { return rollback(ctx, true) })
}

// abandonAsync is abandonOn on all servers, in the background.
func (s *Store) abandonAsync(ctx context.Context, r *round) <-chan answer[struct{}] {
	return ask(ctx, s, func(ctx context.Context, n server, i int) (struct{}, error) {
		s.abandonOn(ctx, r, n, i)
		return struct{}{}, nil
	})
}

// abandon waits until the servers that voted took it back: the next round begins with one.
func (s *Store) abandon(ctx context.Context, r *round) {
	voted := make([]bool, len(s.nodes))
	for i := range voted {
		voted[i] = r.vote(i).fence > 0
	}
	for answers := s.abandonAsync(ctx, r); slices.Contains(voted, true); {
		voted[(<-answers).node] = false
	}
}

// busy sums up a round that failed: how long until a majority may be free, and what the
// holder says of itself.
func (r *round) busy(s *Store) guardstore.ClaimReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	var views []guardstore.ClaimReply
	for _, v := range r.votes {
		if v.answered && v.err == nil {
			views = append(views, v.reply)
		}
	}
	return summarize(s, views)
}

// summarize makes one answer of several. A majority is free when that many are. The lock has no
// holder if some servers only keep it until its MinHold ends, and the others are too few for
// a holder.
func summarize(s *Store, views []guardstore.ClaimReply) guardstore.ClaimReply {
	r := guardstore.ClaimReply{Status: guardstore.ClaimBusy}
	slices.SortFunc(views, func(a, b guardstore.ClaimReply) int { return cmp.Compare(a.Remaining, b.Remaining) })
	r.Remaining = views[min(s.need, len(views))-1].Remaining
	r.Holder = views[len(views)-1].Holder
	r.Ahead = views[0].Ahead
	done, holders := 0, len(s.nodes)-len(views) // one may have those that did not answer
	for _, l := range views {
		switch {
		case l.Done:
			done++
		case l.Remaining != 0:
			holders++
		}
		r.Ticket = max(r.Ticket, l.Ticket)
		r.Ahead = min(r.Ahead, l.Ahead)
	}
	r.Done = done > 0 && holders < s.need
	return r
}

// newRoundOwner makes the owner of a round from that of its claim, whose instance it
// keeps in front.
func (s *Store) newRoundOwner(owner string) string {
	return owner + roundMark + strconv.FormatUint(s.rounds.Add(1), 36)
}
