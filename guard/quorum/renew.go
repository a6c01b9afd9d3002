package quorum

import (
	"context"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/clock"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// Renew implements guardstore.Store: one pipeline a server. Servers that do not hold a lock which a
// majority holds, because they came back empty or did not answer in time, are asked to
// hold it, too, asynchronously.
func (s *Store) Renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	replies, err := task.Do(ctx, s.tasks, func(ctx context.Context) ([]guardstore.RenewReply, error) {
		return s.renew(ctx, batch), nil
	})
	if err != nil {
		replies = make([]guardstore.RenewReply, len(batch))
		for i := range replies {
			replies[i].Err = err
		}
	}
	return replies
}

func (s *Store) renew(ctx context.Context, batch []guardstore.Grant) []guardstore.RenewReply {
	rounds := make([]*round, len(batch))
	for i, t := range batch {
		rounds[i] = s.round(t.Owner)
	}
	answers := ask(ctx, s, func(ctx context.Context, n server, node int) ([]guardstore.RenewReply, error) {
		replies := renewOn(ctx, n, node, batch, rounds)
		for i, r := range rounds {
			if r != nil && replies[i].Err == nil && !replies[i].Held && !r.vote(node).revoked &&
				batch[i].TTL > 0 { // else no expiry is to move
				s.repair(ctx, node, r)
			}
		}
		return replies, nil
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
		replies[i].Revoked = !replies[i].Held && replies[i].Err == nil && (p.revoked || rounds[i].wasRevoked())
	}
	return replies
}

// poll counts the answers for one grant.
type poll struct {
	yes, no int
	revoked bool
	errs    serverErrors
}

// add returns 1 when the answer decides.
func (p *poll) add(r guardstore.RenewReply, s *Store) int {
	before := p.yes >= s.need || p.no > len(s.nodes)-s.need
	switch {
	case r.Err != nil:
		p.errs = append(p.errs, r.Err)
	case r.Held:
		p.yes++
	default:
		p.no++
		p.revoked = p.revoked || r.Revoked
	}
	if !before && (p.yes >= s.need || p.no > len(s.nodes)-s.need) {
		return 1
	}
	return 0
}

// renewOn renews on one server what it has votes for.
func renewOn(ctx context.Context, n server, node int, batch []guardstore.Grant, rounds []*round) []guardstore.RenewReply {
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
			r.lost(node, reply.Revoked)
		}
	}
	return replies
}

// repair has one server hold the lock for a round that a majority holds: a round that lost
// it ends soon, and takes everything back then. The next renewal asks for it anew, if it
// has to.
func (s *Store) repair(ctx context.Context, node int, r *round) {
	until := clock.Now().Add(s.timeout + r.claim.TTL/3)
	again := func(ctx context.Context) error {
		if r.vote(node).fence > 0 || !s.repairing(r, node) {
			return nil // done, or ended
		}
		c := r.claim
		c.FenceAbove = r.fence
		_, err := s.acquireOn(ctx, s.nodes[node], node, r, c)
		return err
	}
	s.enqueue(&s.repairs[node], outboxAtOnce, delivery{context.WithoutCancel(ctx), until, again}) //nolint:contextcheck // it has its own
}

// repairing notes that an acquire is on its way, unless the round has ended.
func (s *Store) repairing(r *round, node int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.claims[claimOf(r.claim.Owner)]
	if b == nil || b.won != r {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes[node].inDoubt = true
	return true
}
