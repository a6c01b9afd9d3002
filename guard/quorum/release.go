package quorum

import (
	"context"
	"maps"
	"time"

	"github.com/redlatch/redlatch/guard/guardstore"
	"github.com/redlatch/redlatch/guard/internal/task"
)

// Release implements guardstore.Store. The end of a grant notifies the claims that wait; that of a claim
// that never held notifies no claim.
func (s *Store) Release(ctx context.Context, rel guardstore.Release) (guardstore.ReleaseReply, error) {
	return task.Do(ctx, s.tasks, func(ctx context.Context) (guardstore.ReleaseReply, error) { return s.release(ctx, rel) })
}

func (s *Store) release(ctx context.Context, rel guardstore.Release) (guardstore.ReleaseReply, error) {
	r := s.finish(rel)
	// Repeated, it is not known any more which servers may yet hear of an acquire.
	rel.Tombstone = rel.Tombstone || r == nil && rel.Fence > 0
	return s.sumReleased(ask(ctx, s, func(ctx context.Context, n server, i int) (guardstore.ReleaseReply, error) {
		one := rel
		if r != nil {
			s.awaitVote(ctx, r, i)
			one.Owner = r.claim.Owner
			one.Tombstone = one.Tombstone || r.vote(i).inDoubt
		}
		reply, err := reach(s, i, func() (guardstore.ReleaseReply, error) { return n.Release(ctx, one) })
		if r == nil || r.concerns(i) { // else it has nothing to give back
			s.deliverLater(ctx, i, err, rel.TTL, func(ctx context.Context) error {
				_, err := n.Release(ctx, one)
				return err
			})
		}
		return reply, err
	}))
}

// awaitVote waits for the answer to a round's acquire, which the majority did not need:
// a command on its way to a server would need a tombstone there, and tombstones slow down
// all that follows.
func (s *Store) awaitVote(ctx context.Context, r *round, node int) {
	r.mu.Lock()
	v := &r.votes[node]
	if v.answered {
		r.mu.Unlock()
		return
	}
	if v.done == nil {
		v.done = make(chan struct{})
	}
	done := v.done
	r.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	case <-s.closing:
	}
}

// finish forgets a claim: a round that is under way finds it ended, and with a tombstone, so does a later round.
// It returns the round by which the claim held.
func (s *Store) finish(rel guardstore.Release) *round {
	owner := claimOf(rel.Owner)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); rel.Tombstone {
		maps.DeleteFunc(s.ended, func(_ ending, until time.Time) bool { return now.After(until) })
		s.ended[ending{rel.Key, owner}] = now.Add(tombstoneLife)
	}
	b := s.claims[owner]
	if b == nil {
		return nil
	}
	r := b.won
	b.finished, b.won = true, nil
	if b.users == 0 {
		delete(s.claims, owner)
	}
	return r
}

// freed says that a server's lock was held, and is not any more.
func freed(r guardstore.ReleaseStatus) bool {
	return r == guardstore.ReleaseDone || r == guardstore.ReleaseRevoked
}

// sumReleased makes one answer of those of a majority.
func (s *Store) sumReleased(answers <-chan answer[guardstore.ReleaseReply]) (guardstore.ReleaseReply, error) {
	var errs serverErrors
	done, lost, revoked, heldOver := 0, 0, 0, 0
	decided := func() bool {
		mostRevoked := revoked > len(s.nodes)-s.need // the servers without a revocation are no majority
		return lost > len(s.nodes)-s.need || done-revoked >= s.need || mostRevoked && done >= s.need
	}
	for pending := len(s.nodes); pending > 0 && !decided(); pending-- {
		a := <-answers
		switch {
		case a.err != nil:
			errs = append(errs, a.err)
		case freed(a.reply.Status):
			done++
			if a.reply.Status == guardstore.ReleaseRevoked {
				revoked++
			}
		default:
			lost++
		}
		if a.reply.HeldOver {
			heldOver++
		}
	}
	switch {
	case lost > len(s.nodes)-s.need:
		return guardstore.ReleaseReply{Status: guardstore.ReleaseLost}, nil
	case done < s.need:
		return guardstore.ReleaseReply{}, errs.join(s)
	}
	reply := guardstore.ReleaseReply{Status: guardstore.ReleaseDone, HeldOver: heldOver >= s.need}
	if revoked > len(s.nodes)-s.need {
		reply.Status = guardstore.ReleaseRevoked
	}
	return reply, nil
}
