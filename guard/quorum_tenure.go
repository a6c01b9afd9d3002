package guard

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
)

// Renew implements Store: one pipeline a server. Servers that do not hold a lock which a
// majority holds, because they came back empty or did not answer in time, are asked to
// hold it, too, behind the caller.
func (s *quorumStore) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	rounds := make([]*round, len(batch))
	for i, t := range batch {
		rounds[i] = s.round(t.Owner)
	}
	answers := askAndGoOn(ctx, s, func(ctx context.Context, n *redisStore, node int, answer func([]guardstore.RenewReply, error)) {
		replies := renewOn(ctx, n, node, batch, rounds)
		answer(replies, nil)
		for i, r := range rounds {
			if r != nil && replies[i].Err == nil && !replies[i].Held {
				s.repair(ctx, node, r)
			}
		}
	})
	polls := make([]poll, len(batch))
	undecided := len(batch)
	for pending := len(s.nodes); pending > 0 && undecided > 0; pending-- {
		a := <-answers
		for i := range polls {
			undecided -= polls[i].add(a.reply[i], s)
		}
	}
	replies := make([]guardstore.RenewReply, len(batch))
	for i, p := range polls {
		if replies[i].Held = p.yes >= s.need; !replies[i].Held && p.no <= len(s.nodes)-s.need {
			replies[i].Err = p.errs.join(s)
		}
	}
	return replies
}

// poll counts the answers for one tenure.
type poll struct {
	yes, no int
	errs    nodeErrors
}

// add returns 1 when the answer decides.
func (p *poll) add(r guardstore.RenewReply, s *quorumStore) int {
	before := p.yes >= s.need || p.no > len(s.nodes)-s.need
	switch {
	case r.Err != nil:
		p.errs = append(p.errs, r.Err)
	case r.Held:
		p.yes++
	default:
		p.no++
	}
	if !before && (p.yes >= s.need || p.no > len(s.nodes)-s.need) {
		return 1
	}
	return 0
}

// renewOn renews on one server what it has votes for.
func renewOn(ctx context.Context, n *redisStore, node int, batch []guardstore.Grant, rounds []*round) []guardstore.RenewReply {
	replies := make([]guardstore.RenewReply, len(batch))
	var requests []guardstore.Grant
	var which []int
	for i, t := range batch {
		if r := rounds[i]; r != nil {
			v := r.vote(node)
			if v.fence == 0 || t.Fence != r.fence {
				continue // it does not hold the lock for us
			}
			t.Owner, t.Fence = r.claim.Owner, v.fence
		}
		requests, which = append(requests, t), append(which, i)
	}
	if len(requests) == 0 {
		return replies
	}
	for j, reply := range n.Renew(ctx, requests) {
		replies[which[j]] = reply
		if r := rounds[which[j]]; r != nil && reply.Err == nil && !reply.Held {
			r.lost(node)
		}
	}
	return replies
}

// repair has one server hold the lock for a round that a majority holds: a round that lost
// it ends soon, and takes everything back then. The next renewal asks for it anew, if it
// has to.
func (s *quorumStore) repair(ctx context.Context, node int, r *round) {
	until := clock.Now().Add(s.timeout + r.claim.TTL/3)
	again := func(ctx context.Context) error {
		if r.vote(node).fence > 0 || !s.repairing(r, node) {
			return nil // done, or over
		}
		c := r.claim
		c.FenceAbove = r.fence
		reply, err := s.nodes[node].Acquire(ctx, c)
		r.count(nodeAnswer[guardstore.ClaimReply]{node, reply, err})
		return err
	}
	s.later(&s.repairs[node], owedAtOnce, thing{context.WithoutCancel(ctx), until, again}) //nolint:contextcheck // it has its own
}

// repairing notes that an acquire is on its way, unless the round is over.
func (s *quorumStore) repairing(r *round, node int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bids[claimOf(r.claim.Owner)]
	if b == nil || b.won != r || b.over {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes[node].unsettled = true
	return true
}

// Release implements Store. The end of a tenure wakes those who wait; that of a claim
// that never held wakes nobody.
func (s *quorumStore) Release(ctx context.Context, rel guardstore.Release) (guardstore.ReleaseReply, error) {
	owner, r := claimOf(rel.Owner), s.finish(rel.Owner)
	// Repeated, it is not known any more which servers may yet hear of an acquire.
	rel.Tombstone = rel.Tombstone || r == nil && rel.Fence > 0
	answers := askAndGoOn(ctx, s, func(ctx context.Context, n *redisStore, i int, answer func(released, error)) {
		one := rel
		one.Next = nil
		if r != nil {
			s.awaitVote(ctx, r, i)
			one.Owner = r.claim.Owner
			one.Tombstone = one.Tombstone || r.vote(i).unsettled
		}
		reply, err := reach(s, i, func() (guardstore.ReleaseReply, error) { return n.Release(ctx, one) })
		got := released{status: reply.Status}
		if err == nil && rel.Next != nil {
			got.next, err = n.wake(ctx, rel.Key, owner, rel.Next.Owner)
		}
		answer(got, err)
		switch {
		case rel.Next != nil, neverSent(err):
		case reply.Status == guardstore.ReleaseDone:
			_, _ = n.wake(ctx, rel.Key, owner, "")
		default:
			n.leave(ctx, rel.Key, owner)
		}
		if r != nil && !r.concerns(i) {
			return // it has nothing to give back
		}
		s.insist(ctx, i, err, rel.TTL, func(ctx context.Context) error {
			reply, err := n.Release(ctx, one)
			if err == nil && reply.Status == guardstore.ReleaseDone {
				_, err = n.wake(ctx, rel.Key, owner, "")
			}
			return err
		})
	})
	return s.sumReleased(answers, rel.Next != nil)
}

// awaitVote waits for the answer to a round's acquire, which the majority did not need:
// what is on its way to a server would have to be buried there, and tombstones slow down
// all that follows.
func (s *quorumStore) awaitVote(ctx context.Context, r *round, node int) {
	r.mu.Lock()
	v := &r.votes[node]
	if v.answered {
		r.mu.Unlock()
		return
	}
	if v.heard == nil {
		v.heard = make(chan struct{})
	}
	heard := v.heard
	r.mu.Unlock()
	select {
	case <-heard:
	case <-ctx.Done():
	case <-s.closing:
	}
}

// finish ends what is known of a claim: a round that is under way finds it over. It
// returns the round by which the claim held.
func (s *quorumStore) finish(owner string) *round {
	owner = claimOf(owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bids[owner]
	if b == nil {
		return nil
	}
	r := b.won
	b.over, b.won = true, nil
	if b.users == 0 {
		delete(s.bids, owner)
	}
	return r
}

// released is one server's answer to a release.
type released struct {
	status guardstore.ReleaseStatus
	next   woken
}

// sumReleased makes one answer of those of a majority. A next claim that is first in
// line has no answer: it asks.
func (s *quorumStore) sumReleased(answers <-chan nodeAnswer[released], next bool) (guardstore.ReleaseReply, error) {
	var errs nodeErrors
	done, already, lost, first, place := 0, 0, 0, 0, uint64(0)
	for pending := len(s.nodes); pending > 0 && done+already < s.need && lost <= len(s.nodes)-s.need; pending-- {
		a := <-answers
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
			continue
		case a.reply.status == guardstore.ReleaseDone:
			done++
		case a.reply.status == guardstore.ReleaseAlready:
			already++
		default:
			lost++
		}
		if a.reply.next.first {
			first++
		}
		place = max(place, a.reply.next.place)
	}
	switch {
	case lost > len(s.nodes)-s.need:
		return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}, nil
	case done+already < s.need:
		return guardstore.ReleaseReply{}, errs.join(s)
	case done == 0:
		return guardstore.ReleaseReply{Status: guardstore.ReleaseAlready}, nil
	}
	reply := guardstore.ReleaseReply{Status: guardstore.ReleaseDone}
	if next && first < s.need {
		reply.Next = guardstore.ClaimReply{Status: guardstore.ClaimBusy, Ticket: place, Ahead: 1}
	}
	return reply, nil
}
